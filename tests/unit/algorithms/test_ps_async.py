"""The asynchronous parameter server, and blocks that compute during the first pull."""

from __future__ import annotations

import heapq
from collections import OrderedDict

import pytest
import torch
from torch import nn

from repro.testing import small
from repro.training.device_times import BlockSeconds
from tests.unit.algorithms.test_parameter_server import step_seconds

MILLISECONDS = {1: [3.0], 2: [3.0, 7.3], 4: [3.0, 4.3, 29.3, 5.7], 6: [3.1, 4.3, 41.3, 5.9, 9.7, 3.7]}


def uneven(workers):
    """Each worker at its own speed; the server computes nothing."""
    seconds = [*(ms * 1e-3 for ms in MILLISECONDS[workers]), 0.0]
    return lambda rank: BlockSeconds([seconds[rank] / 4] * 2, [seconds[rank] / 4] * 2)


def replay(workers, steps):
    """The server's weights and each push's staleness, from the workers' speeds alone, one event after the other."""
    weights = small.initial_weights()
    transfer = small.NETWORK.alpha + 4 * weights.numel() * small.NETWORK.beta
    update_s = 4 * weights.numel() * small.COSTS.seconds_per_byte["update"]
    compute = [ms * 1e-3 for ms in MILLISECONDS[workers]]
    arrivals = [(seconds + transfer, worker, 0) for worker, seconds in enumerate(compute)]
    heapq.heapify(arrivals)
    held, pulled, version, staleness, served, free = [weights] * workers, [0] * workers, 0, [], [], 0.0
    while arrivals:
        arrived, worker, iteration = heapq.heappop(arrivals)
        gradient = small.serial_gradient(held[worker], iteration, worker, workers)
        weights = weights.add(gradient, alpha=-small.SGD.lr * (1 / workers))
        staleness.append(version - pulled[worker])
        version += 1
        held[worker], pulled[worker] = weights, version
        served.append(worker)
        free = max(free, arrived) + update_s
        if iteration + 1 < steps:
            heapq.heappush(arrivals, (free + transfer + compute[worker] + transfer, worker, iteration + 1))
    return weights, held, staleness, served


@pytest.mark.parametrize("workers", MILLISECONDS)
def test_pushes_are_applied_in_order_of_arrival(workers):
    """Bit for bit what a serial replay of the arrivals gives, worker by worker and at the server."""
    weights, held, staleness, served = replay(workers, steps=8)
    run = small.run("ps_async", workers=workers, steps=8, blocks=uneven(workers))
    assert torch.equal(run.weights[-1], weights)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(run.weights, held, strict=False))
    assert run.staleness == [[]] * workers + [staleness]
    if workers > 2:  # a fast worker really was ahead: served more than once before the slow one came for the first time
        slow = MILLISECONDS[workers].index(max(MILLISECONDS[workers]))
        assert max(served[: served.index(slow)].count(worker) for worker in range(workers)) > 1


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_equal_workers_are_served_in_rank_order(workers):
    """Then every push is as old as there are other workers; at the same time the lowest rank comes first."""
    run = small.run("ps_async", workers=workers, steps=5)
    assert run.staleness[-1] == [*range(workers)] + [workers - 1] * (4 * workers)
    assert run.states[-1]["pulled"] == [4 * workers + rank + 1 for rank in range(workers)]


def test_uneven_runs_repeat_and_survive_settling(workers=4):
    how = dict(workers=workers, blocks=uneven(workers), optimizer=small.SGD.model_copy(update={"momentum": 0.9}))
    whole = small.run("ps_async", **how)
    assert small.run("ps_async", **how).digests == whole.digests
    assert small.run("ps_async", settle_every=1, **how).digests == whole.digests
    assert small.run("ps_async", stop_and_resume_at=5, **how).digests == whole.digests


def test_the_server_holds_what_is_evaluated_and_a_worker_the_running_means():
    def normed():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            second = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, small.CLASSES))
            return nn.Sequential(OrderedDict(a=nn.Linear(small.INPUTS, 5), b=second))

    assert small.run("ps_async").held == [set(), set(), set(small.model().state_dict())]
    held = small.run("ps_async", build_model=normed).held
    assert held[0] == held[1] == {"b.0.running_mean", "b.0.running_var", "b.0.num_batches_tracked"}
    assert held[2] == set(normed().state_dict())


# --- blocks at the front without trainable parameters compute during the first pull


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


@pytest.mark.parametrize("workers", [1, 3])
def test_a_frozen_first_block_changes_no_weight(workers):
    how = {"build_model": frozen, "blocks": lambda rank: BlockSeconds([9e-3, 1e-3, 1e-3], [2e-3] * 3), "steps": 6}
    default = small.run("ps_default", workers=workers, **how)
    for name, options in (("ps_layerwise", {}), ("ibatch", {"mode": "exact"}), ("ibatch", {"push": "batches"})):
        other = small.run(name, options, workers=workers, **how)
        assert other.digests == default.digests and len(set(other.digests)) == 1
        assert other.seconds < default.seconds or workers == 1  # which pulls from itself, in no time
