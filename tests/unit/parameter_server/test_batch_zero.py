"""Blocks at the front without parameters to train compute while the first pull is under way, and change no weight."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn

from repro.batching.profile import PullProfile
from repro.fabric import virtual
from repro.parameter_server.module import ServedModule
from repro.testing import small
from repro.timing.device import BlockSeconds
from tests.unit.parameter_server.test_parameter_server import step_seconds

ALPHA = 5e-4  # seconds; a pull is a request and an answer: 1 ms, and STARTUP before
STARTUP = 1e-3
PULL = STARTUP + 2 * ALPHA


@pytest.mark.parametrize("forward", [1e-3, 5e-3])
@pytest.mark.parametrize("name, options", [
    ("ibatch", {"mode": "exact"}), ("ibatch", {"mode": "greedy"}), ("ps_layerwise", {}),
    ("ibatch", {"batches": [[1, 1], [2, 7]]}),
])  # fmt: skip
def test_the_first_block_computes_during_the_first_pull(name, options, forward):
    """Only the first block, which has no parameters, takes time: its pass or all pulls, whatever ends last."""
    blocks = BlockSeconds([forward, *[0.0] * 6], [0.0] * 7)
    described, rank = step_seconds(name, options, blocks, STARTUP, ALPHA, 0.0)
    assert described["batches"][0] == [1, 1]
    step, pulls = rank["first_step"], len(described["batches"]) - 1
    assert step["pull_s"] == pytest.approx(pulls * PULL)  # nothing is asked for batch 0
    assert step["forward_end_s"] == pytest.approx(max(forward, pulls * PULL))
    assert step["overlap_s"] == pytest.approx(min(forward, pulls * PULL))
    assert step["forward_s"] == pytest.approx(forward)
    assert described["executed_s"] == pytest.approx(step["forward_end_s"], abs=1e-8)  # a transfer counts 1 ns at least


def test_the_default_server_computes_nothing_before_all_is_pulled():
    blocks = BlockSeconds([5e-3, *[0.0] * 6], [0.0] * 7)
    described, rank = step_seconds("ps_default", {}, blocks, STARTUP, ALPHA, 0.0)
    assert rank["first_step"]["forward_end_s"] == pytest.approx(PULL + 5e-3) and rank["overlap_s"] == 0.0
    assert described["executed_s"] == pytest.approx(PULL + 5e-3, abs=1e-8)


def frozen(seed: int = 0) -> nn.Sequential:
    """A first block whose parameters do not train, and two that do."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first = nn.Sequential(nn.Linear(small.INPUTS, 8), nn.Tanh()).requires_grad_(False)
        second, third = nn.Sequential(nn.Linear(8, 5), nn.Tanh()), nn.Linear(5, small.CLASSES)
    return nn.Sequential(OrderedDict(a=first, b=second, c=third))


@pytest.mark.parametrize("workers", [1, 3, 6])
def test_a_frozen_first_block_changes_no_weight(workers):
    how = {"build_model": frozen, "blocks": lambda rank: BlockSeconds([9e-3, 1e-3, 1e-3], [2e-3] * 3), "steps": 6}
    default = small.run("ps_default", workers=workers, **how)
    for name, options in (("ps_layerwise", {}), ("ibatch", {"mode": "exact"}), ("ibatch", {"push": "batches"})):
        other = small.run(name, options, workers=workers, **how)
        assert other.digests == default.digests and len(set(other.digests)) == 1
        assert other.seconds < default.seconds or workers == 1  # which pulls from itself, in no time


class Waiting(nn.Module):
    """A block whose pass takes so many seconds of a fabric's clock."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block, self.wait = block, lambda: None

    def forward(self, x):
        self.wait()
        return self.block(x)


PROFILE = PullProfile(STARTUP, (0.0, 1e-4, 1e-4), (1.0, 0.0, 0.0))


def served(mode: str | None, ranks: int, steps: int = 3) -> list[tuple[dict[str, torch.Tensor], float, tuple]]:
    """(weights, seconds, batches) of each rank; the first block, frozen, computes for a second."""

    def main(fabric):
        module = nn.Sequential(*[Waiting(block) for block in frozen()])
        module[0].wait = lambda: fabric.sleep(1.0)
        server = ServedModule(fabric, module, list(module), small.SGD)
        batches = server.batch(PROFILE if mode else None, mode or "default")
        began = fabric.now()
        for iteration in range(steps):
            x, y = small.split().x[iteration::20], small.split().y[iteration::20]
            with server.step():
                nn.functional.cross_entropy(module(x), y).backward()
        seconds = fabric.now() - began
        weights = server.weights()
        server.close()
        return weights, seconds, batches

    return virtual.run(ranks, main, virtual.Network(0.1, 0.0), small.COSTS)


@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_a_frozen_first_block_of_a_served_module(ranks):
    """Pulls of 0.2 s: two of them fit into the frozen block's second, where the default waits for its one first."""
    default = served(None, ranks)
    for mode in ("layerwise", "exact", "greedy"):
        for (weights, seconds, batches), (expected, longer, _) in zip(served(mode, ranks), default):
            assert batches[0] == (1, 1)
            assert all(torch.equal(weights[name], expected[name]) for name in expected)
            assert seconds == pytest.approx(longer - 3 * 0.2, abs=1e-3)
