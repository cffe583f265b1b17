"""The asynchronous parameter server: every push once, in order of arrival, with the staleness that it really has."""

from __future__ import annotations

import heapq
from collections import OrderedDict

import pytest
import torch
from torch import nn

from repro.strategies.ps_async import PSAsync
from repro.testing import small
from repro.timing.device import BlockSeconds

MILLISECONDS = {
    1: [3.0],
    2: [3.0, 7.3],
    3: [13.3, 3.0, 5.1],
    4: [3.0, 4.3, 29.3, 5.7],
    6: [3.1, 4.3, 41.3, 5.9, 9.7, 3.7],
}


def uneven(workers):
    """Each worker at its own speed; the server computes nothing."""
    seconds = [*(ms * 1e-3 for ms in MILLISECONDS[workers]), 0.0]
    return lambda rank: BlockSeconds([seconds[rank] / 4] * 2, [seconds[rank] / 4] * 2)


def initial() -> torch.Tensor:
    return small.ModelShard(small.model(), small.SGD, torch.device("cpu")).weights.clone()


def replay(workers, steps):
    """The server's weights and each push's staleness, from the workers' speeds alone, one event after the other."""
    weights = initial()
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


@pytest.mark.parametrize("workers", [2, 3, 6])
def test_no_push_is_lost_or_applied_twice(workers, monkeypatch):
    pushed = []
    compute = PSAsync.local_gradient

    def record(self, out):
        report = compute(self, out)
        pushed.append((report.minibatches[0], out.clone()))
        return report

    monkeypatch.setattr(PSAsync, "local_gradient", record)
    run = small.run("ps_async", workers=workers, steps=10, blocks=uneven(workers))
    assert sorted(minibatch for minibatch, _ in pushed) == list(range(10 * workers))
    applied = initial() - small.SGD.lr / workers * torch.stack([gradient for _, gradient in pushed]).sum(0)
    torch.testing.assert_close(run.weights[-1], applied)
    state = run.states[-1]
    assert state["version"] == 10 * workers == len(run.staleness[-1]) and state["iteration"] == 10
    assert max(state["pulled"]) == state["version"] and len(set(state["pulled"])) == workers


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_equal_workers_are_served_in_rank_order(workers):
    """Then every push is as old as there are other workers; at the same time the lowest rank comes first."""
    run = small.run("ps_async", workers=workers, steps=5)
    assert run.staleness[-1] == [*range(workers)] + [workers - 1] * (4 * workers)
    assert run.states[-1]["pulled"] == [4 * workers + rank + 1 for rank in range(workers)]


def test_a_fast_worker_does_not_wait_for_a_slow_one():
    """It has done its iterations in its own time and the way to the server and back."""
    fast, slow = 3e-3, 300e-3
    blocks = lambda rank: BlockSeconds([fast if rank == 0 else slow, 0.0], [0.0, 0.0])  # noqa: E731
    ends = []
    work = PSAsync.work

    def timed(self):
        report = work(self)
        ends.append((self.worker.rank, self.worker.fabric.now()))
        return report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PSAsync, "work", timed)
        small.run("ps_async", workers=2, steps=10, blocks=blocks)
    of_fast = [time for rank, time in ends if rank == 0]
    assert len(of_fast) == 10 and of_fast[-1] < 10 * (fast + 0.5e-3) < slow


@pytest.mark.parametrize("workers", [2, 3])
def test_uneven_runs_repeat_and_survive_settling(workers):
    how = dict(workers=workers, blocks=uneven(workers), optimizer=small.SGD.model_copy(update={"momentum": 0.9}))
    whole = small.run("ps_async", **how)
    assert small.run("ps_async", **how).digests == whole.digests
    assert small.run("ps_async", settle_every=1, **how).digests == whole.digests
    assert small.run("ps_async", stop_and_resume_at=5, **how).digests == whole.digests


def test_bytes_are_those_of_the_synchronous_server():
    assert small.run("ps_async", workers=3).bytes_sent == small.run("ps_sync", workers=3).bytes_sent


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


def test_without_arithmetic_it_takes_the_same_time():
    how = dict(workers=3, blocks=uneven(3))
    timed, real = small.run("ps_async", arithmetic=False, **how), small.run("ps_async", **how)
    assert (timed.seconds, timed.bytes_sent, timed.staleness) == (real.seconds, real.bytes_sent, real.staleness)
