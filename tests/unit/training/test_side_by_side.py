"""Passes of virtual ranks that are computed side by side end in the bits of passes computed one after another."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from repro import strategies
from repro.core.errors import InputError
from repro.data import base
from repro.experiment.optimizer import Optimizer
from repro.testing import real, small
from repro.training import compute, side_by_side
from repro.training.device_times import BlockSeconds
from repro.training.evaluation.evaluate import evaluate_weights
from repro.training.model_shard import ModelShard
from repro.training.side_by_side import CapturedPasses
from tests.support.normalised import with_statistics

VIRTUAL = [name for name in strategies.REGISTRY.usable() if real.needed_library(name) is None]
MOMENTUM = Optimizer(lr=0.1, momentum=0.9)


def with_cores(count, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))
    monkeypatch.setattr(side_by_side, "LEAST_S", 0.0)
    side_by_side.pass_threads.cache_clear()


def results(run: small.SmallRun):
    return run.digests, run.losses, run.seconds, run.bytes_sent, run.counters


def six_blocks(workers: int) -> dict[str, Any]:
    """A run of a model that also a pipeline of six stages can hold."""
    seconds = BlockSeconds([1e-3] * 6, [2e-3] * 6)
    return {
        "workers": workers,
        "steps": 6,
        "optimizer": MOMENTUM,
        "build_model": lambda: with_statistics(blocks=6),
        "blocks": lambda rank: seconds,
        "delays": [[0.0] * (workers - 1) + [0.004]],
    }


@pytest.mark.parametrize("workers", [3, 6])
@pytest.mark.parametrize("name", VIRTUAL)
def test_threads_change_no_bit(name, workers, monkeypatch):
    with_cores(1, monkeypatch)
    expected = results(small.run(name, **six_blocks(workers)))
    with_cores(3, monkeypatch)
    assert results(small.run(name, **six_blocks(workers))) == expected


def test_ranks_compute_at_the_same_time(monkeypatch):
    with_cores(2, monkeypatch)
    together = threading.Barrier(2)

    class Meets(nn.Linear):
        def forward(self, x):
            if threading.current_thread() is not threading.main_thread():
                together.wait(timeout=60)  # BrokenBarrierError if the other rank's passes come later
            return super().forward(x)

    def build():
        return nn.Sequential(OrderedDict(a=small.model(), b=Meets(small.CLASSES, small.CLASSES)))

    small.run("gtopk", workers=2, build_model=build)
    assert not together.broken


def test_random_numbers_keep_the_order_of_ranks(monkeypatch):
    class Noisy(nn.Linear):
        def forward(self, x):
            return functional.dropout(super().forward(x), 0.5)

    def build():
        torch.manual_seed(1)
        return nn.Sequential(OrderedDict(a=Noisy(small.INPUTS, 5), b=nn.Linear(5, small.CLASSES)))

    with_cores(1, monkeypatch)
    expected = small.run("dsync", workers=3, build_model=build).digests
    with_cores(3, monkeypatch)
    assert small.run("dsync", workers=3, build_model=build).digests == expected


def test_an_error_in_a_thread_ends_the_run_as_any_other(monkeypatch):
    with_cores(2, monkeypatch)

    class Refuses(nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls > side_by_side.TRIALS:
                raise InputError("this layer takes no more")
            return super().forward(x)

    def build():
        return nn.Sequential(OrderedDict(a=Refuses(small.INPUTS, small.CLASSES), b=nn.Identity()))

    with pytest.raises(InputError, match="this layer takes no more"):
        small.run("dsync", workers=2, build_model=build)


class RecordedOnCpu:
    """Stands in for a CUDA graph: recording leaves no trace, a replay overwrites the static results."""

    def __init__(self, shard: ModelShard):
        self.shard, self.replays = shard, 0

    def record(self, run):
        before = self.shard.model.state_dict()
        before = {name: tensor.clone() for name, tensor in before.items()}
        self.run, self.loss = run, run()
        self.gradients = [parameter.grad for parameter in self.shard.parameters]
        self.shard.model.load_state_dict(before)
        return self.loss

    def replay(self):
        self.shard.clear_gradients()
        self.loss.copy_(self.run())
        for static, parameter in zip(self.gradients, self.shard.parameters, strict=True):
            static.copy_(parameter.grad)
            parameter.grad = None  # nobody sees them before `join`
        self.replays += 1

    def join(self):
        pass


def captured_on_cpu(monkeypatch) -> list[RecordedOnCpu]:
    """Let all virtual ranks capture their passes; returns the graphs that they record."""
    graphs: list[RecordedOnCpu] = []

    def passes(shard, run):
        def graph(_):
            graphs.append(RecordedOnCpu(shard))
            return graphs[-1]

        return CapturedPasses(shard, run, graph)

    monkeypatch.setattr(compute, "SideBySide", passes)
    return graphs


@pytest.mark.parametrize("name", ["dsync", "wfbp", "gtopk", "pipe_sgd", "eager_majority", "powersgd", "ps_sync"])
def test_captured_passes_are_eager_ones(name, monkeypatch):
    how = {"workers": 3, "steps": 10, "optimizer": MOMENTUM, "build_model": with_statistics}
    expected = results(small.run(name, **how))
    graphs = captured_on_cpu(monkeypatch)
    assert results(small.run(name, **how)) == expected
    assert graphs and all(graph.replays > 1 for graph in graphs)


def shard_and_passes(graph):
    shard = ModelShard(with_statistics(), MOMENTUM, torch.device("cpu"))

    def run(x, y):
        def around(name, block):
            return torch.enable_grad()

        return shard.forward_backward(x, y, functional.cross_entropy, around)

    return shard, CapturedPasses(shard, run, lambda _: graph(shard))


def test_other_shapes_and_rebound_weights_are_computed_eagerly():
    graphs = []

    def graph(shard):
        graphs.append(RecordedOnCpu(shard))
        return graphs[-1]

    (shard, captured), (plain, eager) = shard_and_passes(graph), shard_and_passes(lambda _: None)
    eager.recordable = False
    x, y = small.split().slice(0, 8)
    replays = []
    for step, size in enumerate([8, 8, 5, 8, 8]):
        if step == 3:
            for each in (shard, plain):
                each.point_at(each.weights.clone())
        losses = [passes.start(x[:size], y[:size])() for passes in (captured, eager)]
        assert torch.equal(*losses)
        gradients = [each.gradient(each.empty()) for each in (shard, plain)]
        assert torch.equal(*gradients)
        for each in (shard, plain):
            each.update()
        replays.append(graphs[0].replays)
    assert replays == [2, 3, 3, 3, 3]  # the first one is compared with the eager passes


def test_a_graph_that_computes_something_else_is_not_used(monkeypatch, capsys):
    class Wrong(RecordedOnCpu):
        def replay(self):
            super().replay()
            self.gradients[0].mul_(1.001)

    monkeypatch.setattr(CapturedPasses, "explained", False)
    how = {"workers": 2, "build_model": with_statistics}
    expected = small.run("dsync", **how)
    monkeypatch.setattr(compute, "SideBySide", lambda shard, run: CapturedPasses(shard, run, lambda _: Wrong(shard)))
    small.assert_same(small.run("dsync", **how), expected)
    [line] = capsys.readouterr().err.splitlines()
    assert "differs from the eager passes" in line


def test_passes_that_cannot_be_captured_are_computed_eagerly_and_say_so_once(monkeypatch, capsys):
    class Fails:
        def __init__(self, _):
            pass

        def record(self, run):
            run()
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(CapturedPasses, "explained", False)
    monkeypatch.setattr(compute, "SideBySide", lambda shard, run: CapturedPasses(shard, run, lambda _: Fails(shard)))
    small.run("dsync", workers=2)
    [line] = capsys.readouterr().err.splitlines()
    assert "not permitted when stream is capturing" in line


def test_items_are_taken_as_threads_get_free_and_results_keep_their_order(monkeypatch):
    with_cores(2, monkeypatch)
    taken: list[int] = []

    def items():
        for item in range(9):
            taken.append(item)
            yield item

    ahead = []
    for done, result in enumerate(side_by_side.map_on_threads(lambda item: item * item, items())):
        assert result == done * done
        ahead.append(len(taken) - done)
    assert max(ahead) <= 3 and taken == list(range(9))


def test_an_evaluation_on_threads_has_the_same_bits(monkeypatch):
    with_cores(3, monkeypatch)
    monkeypatch.setattr(base, "EVALUATION_BATCH", 16)
    model = with_statistics()
    weights = model.state_dict()
    how = model, weights, small.split(), torch.device("cpu"), None
    assert evaluate_weights(*how, on_threads=True) == evaluate_weights(*how, on_threads=False)
