"""Averaging parameters instead of gradients: synchronous SGD up to rounding, and what a codec does to a model."""

from __future__ import annotations

import pytest
import torch

from repro import strategies
from repro.common.errors import InputError
from repro.testing import small

NAME = "parameter_averaging"
MOMENTUM = small.SGD.model_copy(update={"momentum": 0.9, "weight_decay": 1e-2})


def initial() -> torch.Tensor:
    return small.ModelShard(small.model(), small.SGD, torch.device("cpu")).weights.clone()


@pytest.mark.parametrize("workers", [2, 3, 4, 6])
@pytest.mark.parametrize("optimizer", [small.SGD, MOMENTUM], ids=["plain", "momentum"])
@pytest.mark.parametrize("algorithm", ["ring", "ring_pipelined", "recursive_doubling", "tree", "auto"])
def test_without_a_codec_it_is_synchronous_sgd_up_to_rounding(workers, optimizer, algorithm):
    averaged = small.run(NAME, {"algorithm": algorithm}, workers=workers, optimizer=optimizer)
    dsync = small.run("dsync", workers=workers, optimizer=optimizer)
    assert len(set(averaged.digests)) == 1
    torch.testing.assert_close(averaged.weights[0], dsync.weights[0])
    torch.testing.assert_close(torch.tensor(averaged.losses), torch.tensor(dsync.losses))


def test_it_is_a_local_update_and_then_the_mean():
    """Two workers: a sum of two has one order."""
    weights = initial()
    for iteration in range(12):
        gradients = [small.serial_gradient(weights, iteration, worker, 2) for worker in (0, 1)]
        own = [weights.add(gradient, alpha=-small.SGD.lr) for gradient in gradients]
        weights = (own[0] + own[1]).div(2)
    assert torch.equal(small.run(NAME).weights[0], weights)


def test_momentum_is_each_workers_own():
    """The parameters agree after every iteration, the momentum buffers never: each sees its own gradients alone."""
    weights, buffers = initial(), [None, None]
    for iteration in range(12):
        own = []
        for worker in (0, 1):
            gradient = small.serial_gradient(weights, iteration, worker, 2).add(weights, alpha=1e-2)
            buffer = buffers[worker]
            buffers[worker] = gradient if buffer is None else buffer.mul(0.9).add(gradient)
            own.append(weights.add(buffers[worker], alpha=-small.SGD.lr))
        weights = (own[0] + own[1]).div(2)
    assert not torch.allclose(*buffers)
    run = small.run(NAME, optimizer=MOMENTUM)
    assert torch.equal(run.weights[0], weights) and len(set(run.digests)) == 1


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_truncation_rounds_the_model_itself_in_every_iteration(workers):
    """Division by a power of two keeps the low 16 bits at zero."""
    weights = small.run(NAME, {"codec": "truncate16"}, workers=workers).weights[0]
    assert not (weights.view(torch.int32) & 0xFFFF).any()
    assert (small.run("dsync", {"codec": "truncate16"}, workers=workers).weights[0].view(torch.int32) & 0xFFFF).any()


def test_one_worker_with_a_codec_is_sgd_on_rounded_weights():
    weights = initial()
    for iteration in range(12):
        weights = weights.add(small.serial_gradient(weights, iteration, 0, 1), alpha=-small.SGD.lr)
        weights = (weights.view(torch.int32) & ~0xFFFF).view(torch.float32)
    assert torch.equal(small.run(NAME, {"codec": "truncate16"}, workers=1).weights[0], weights)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("codec", ["truncate16", "quantize8"])
def test_a_codec_moves_parameters_further_off_than_gradients(workers, codec):
    """The claim of Pipe-SGD 3.2, in the small: against the same run without a codec."""

    def error(name):
        lossy = small.run(name, {"codec": codec}, workers=workers, steps=40).weights[0]
        return (lossy - small.run(name, workers=workers, steps=40).weights[0]).norm()

    assert error(NAME) > 2 * error("dsync")


def test_it_sends_what_dsync_sends():
    for codec in ("none", "quantize8"):
        options = {"codec": codec}
        assert small.run(NAME, options, workers=3).bytes_sent == small.run("dsync", options, workers=3).bytes_sent


def test_without_arithmetic_it_takes_the_same_time():
    for codec in ("none", "quantize8"):
        timed = small.run(NAME, {"codec": codec}, workers=3, arithmetic=False)
        real = small.run(NAME, {"codec": codec}, workers=3)
        assert (timed.seconds, timed.bytes_sent) == (real.seconds, real.bytes_sent)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"codec": "truncate16", "algorithm": "tree"}, "needs algorithm 'ring'"),
        ({"algorithm": "server"}, "use strategy=ps_sync"),
        ({"pieces": "many"}, "strategy.pieces=many"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(InputError, match=words):
        strategies.load(NAME).parse(options)
