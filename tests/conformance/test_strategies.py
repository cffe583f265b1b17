"""Every strategy's equivalences: what it must equal exactly, at which setting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from repro import strategies
from repro.common.errors import InputError
from repro.fabric import collectives
from tests.support import real, small

NAMES = real.strategy_names()
CODECS = ("none", "truncate16", "quantize8")


def most(name: str) -> int:
    """Ranks that a strategy is tried on: any number of virtual ones, or as many real ones as are kept.

    Where every rank holds a stage of its own no more than the small model has blocks.
    """
    if getattr(strategies.load(name).Options, "config", None) == "straight":
        return len(small.model())
    return real.RANKS if small.library(name) else 6


def initial() -> torch.Tensor:
    return small.ModelShard(small.model(), small.SGD, torch.device("cpu")).weights.clone()


def step(weights: torch.Tensor, total: torch.Tensor, workers: int) -> torch.Tensor:
    """One SGD update with the mean of a sum, in the operations and order of `torch.optim.SGD`."""
    return weights.add(total.div(workers), alpha=-small.SGD["lr"])


def in_rank_order(gradients: list[torch.Tensor]) -> torch.Tensor:
    total = gradients[0].clone()
    for gradient in gradients[1:]:
        total += gradient
    return total


# --- conformance: over every registered strategy


@pytest.mark.parametrize("name", NAMES)
def test_one_worker_is_plain_sgd(name):
    options = dict(strategies.load(name).neutral)
    weights = initial()
    for iteration in range(12):
        weights = step(weights, small.serial_gradient(weights, iteration, 0, 1), 1)
    assert torch.equal(small.run(name, options, workers=1).weights[0], weights)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("workers", [2, 3])
def test_state_survives_save_and_load(name, workers):
    workers = min(workers, most(name))
    optimizer = small.SGD | {"momentum": 0.9, "weight_decay": 1e-3}
    whole = small.run(name, workers=workers, optimizer=optimizer)
    resumed = small.run(name, workers=workers, optimizer=optimizer, stop_and_resume_at=5)
    small.assert_same(whole, resumed)


@pytest.mark.parametrize(
    "name", real.strategy_names([name for name in strategies.names() if strategies.load(name).identical_replicas])
)
@pytest.mark.parametrize("workers", [1, 2, 3, 6])
def test_all_ranks_end_with_the_same_bits(name, workers):
    workers = min(workers, most(name))
    codecs = CODECS if hasattr(strategies.load(name).Options, "codec") else ("none",)
    for codec in codecs:
        options = {"codec": codec} if codec != "none" else {}
        assert len(set(small.run(name, options, workers=workers, steps=7).digests)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_evaluated_model_is_whole(name):
    for workers in (1, min(3, most(name))):
        held = small.run(name, workers=workers, steps=1).held
        assert set.union(*held) == set(small.model().state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_evaluating_more_often_changes_nothing(name):
    workers = min(3, most(name))
    small.assert_same(small.run(name, workers=workers, settle_every=1), small.run(name, workers=workers))


@pytest.mark.parametrize("name", NAMES)
def test_two_runs_are_the_same(name):
    workers = min(3, most(name))
    first, second = small.run(name, workers=workers), small.run(name, workers=workers)
    small.assert_same(first, second)
    if first.exact:
        assert first.losses == second.losses
    if not small.library(name):  # in virtual time
        assert first.seconds == second.seconds


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_named(name):
    with pytest.raises(InputError, match=f"{name} has no option 'nonsense'"):
        strategies.load(name).parse({"nonsense": 1})


@pytest.mark.parametrize("workers", [2, 3, 4, 6])
def test_bytes_are_counted(workers):
    n = initial().numel()
    blocks = [end - start for start, end in collectives.bounds(n, workers)]
    # in a ring every rank sends every block but one in each half
    ring = [2 * 4 * n - 4 * blocks[(r + 1) % workers] - 4 * blocks[(r + 2) % workers] for r in range(workers)]
    for name in ("dsync", "pipe_sgd"):
        assert small.run(name, workers=workers, steps=5).bytes_sent == [5 * sent for sent in ring]
    served = small.run("ps_sync", workers=workers, steps=5).bytes_sent
    assert served == [5 * 4 * n] * workers + [5 * 4 * n * workers]


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "strategy.md").read_text()
    code = re.search(r"```python\n(# strategies/short_wire\.py\n.*?)```", page, re.DOTALL)[1]
    (tmp_path / "short_wire.py").write_text(code)
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path)])
    assert "short_wire" in strategies.names()
    dsync = small.run("dsync", workers=3)
    torch.testing.assert_close(small.run("short_wire", workers=3).weights[0], dsync.weights[0])
    half = small.run("short_wire", {"wire": "bfloat16"}, workers=3)
    assert len(set(half.digests)) == 1 and half.bytes_sent[0] * 2 == small.run("short_wire", workers=3).bytes_sent[0]
    test_one_worker_is_plain_sgd("short_wire")
    test_state_survives_save_and_load("short_wire", 2)


# --- Pipe-SGD


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("codec", CODECS)
def test_pipe_sgd_with_K_1_is_dsync(workers, codec):
    dsync = small.run("dsync", {"codec": codec}, workers=workers)
    pipe = small.run("pipe_sgd", {"K": 1, "codec": codec}, workers=workers)
    assert (pipe.digests, pipe.losses) == (dsync.digests, dsync.losses)


@pytest.mark.parametrize("algorithm", ["recursive_doubling", "tree", "auto"])
def test_pipe_sgd_with_K_1_is_dsync_with_every_algorithm(algorithm):
    dsync = small.run("dsync", {"algorithm": algorithm}, workers=3)
    assert small.run("pipe_sgd", {"K": 1, "algorithm": algorithm}, workers=3).digests == dsync.digests


@pytest.mark.parametrize("K", [1, 2, 3, 5])
@pytest.mark.parametrize("workers", [1, 2])
def test_pipe_sgd_is_delayed_sgd(K, workers):
    """w[t] = w[t-1] - lr * mean gradient of iteration t-K+1 (from 1), taken at w[t-K];"""
    steps = 12
    history = [initial()]  # history[t]: weights after t steps
    totals: list[torch.Tensor] = []
    for t in range(1, steps + 1):
        gradients = [small.serial_gradient(history[-1], t - 1, worker, workers) for worker in range(workers)]
        totals.append(in_rank_order(gradients))
        due = t - K
        history.append(step(history[-1], totals[due], workers) if due >= 0 else history[-1])
    assert torch.equal(small.run("pipe_sgd", {"K": K}, workers=workers, drain=False).weights[0], history[-1])
    for due in range(steps - K + 1, steps):  # drain: the rest, each once
        history.append(step(history[-1], totals[due], workers))
    assert torch.equal(small.run("pipe_sgd", {"K": K}, workers=workers).weights[0], history[-1])


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_warm_up_is_dsync_and_every_gradient_is_applied_once(K, momentum):
    optimizer = small.SGD | {"momentum": momentum}
    warm = {"K": K, "warmup_epochs": 0.5}  # 5 iterations of 10
    dsync = small.run("dsync", workers=2, steps=5, optimizer=optimizer)
    assert small.run("pipe_sgd", warm, workers=2, steps=5, optimizer=optimizer).digests == dsync.digests
    # while the pipe fills again no step is left out and none is doubled: K - 1 gradients are under way
    assert len(small.run("pipe_sgd", warm, workers=2, steps=9, drain=False).states[0]["ready"]) == K - 1
    assert small.run("pipe_sgd", warm, workers=2).states[0]["ready"] == []


def test_pipe_sgd_resumes_inside_the_warm_up_and_behind_it():
    options = {"K": 3, "warmup_epochs": 0.5, "codec": "quantize8"}
    whole = small.run("pipe_sgd", options, workers=3)
    for stop in (3, 5, 6, 9):
        assert small.run("pipe_sgd", options, workers=3, stop_and_resume_at=stop).digests == whole.digests


@pytest.mark.parametrize("K", [0, -1, 1.5])
def test_K_below_one_is_refused(K):
    with pytest.raises(InputError, match="whole number, 1"):
        strategies.load("pipe_sgd").parse({"K": K})


def test_a_codec_needs_the_ring():
    with pytest.raises(InputError, match="needs algorithm 'ring'"):
        strategies.load("dsync").parse({"codec": "truncate16", "algorithm": "tree"})


# --- parameter server


@pytest.mark.parametrize("workers", [1, 2, 3, 6])
def test_ps_sync_is_sgd_on_the_sum_in_rank_order(workers):
    weights = initial()
    for iteration in range(12):
        gradients = [small.serial_gradient(weights, iteration, worker, workers) for worker in range(workers)]
        weights = step(weights, in_rank_order(gradients), workers)
    assert torch.equal(small.run("ps_sync", workers=workers).weights[0], weights)


def test_ps_sync_with_momentum_is_close_to_dsync():
    optimizer = small.SGD | {"momentum": 0.9}
    served = small.run("ps_sync", workers=4, optimizer=optimizer).weights[0]
    torch.testing.assert_close(served, small.run("dsync", workers=4, optimizer=optimizer).weights[0])


# --- overlap, in virtual time


def test_pipe_sgd_hides_what_dsync_exposes():
    """Computation takes 6 ms, the ring of 4 ranks 0.6 ms: Pipe-SGD's steps cost computation and update only."""
    dsync, pipe = small.run("dsync", workers=4, steps=50), small.run("pipe_sgd", workers=4, steps=50)
    assert dsync.seconds == pytest.approx(50 * (6e-3 + 0.6e-3), rel=1e-3)
    assert pipe.seconds == pytest.approx(50 * 6e-3 + 0.6e-3, rel=1e-3)
