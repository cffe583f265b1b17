"""Errors on the virtual fabric: failed ranks and tasks, deadlocks, time limits."""

from __future__ import annotations

import contextlib

import pytest
import torch

from repro.fabric.base import BACKGROUND, FabricError
from repro.fabric.virtual.fabric import run
from tests.support.virtual import ALPHA, BETA, NETWORK, close


def test_a_rank_that_raises():
    def main(fabric):
        if fabric.rank == 2:
            fabric.sleep(1.0)
            raise KeyError("gone")
        try:
            fabric.recv(torch.zeros(1), 2)
        except FabricError as error:
            raised.append((fabric.rank, str(error)))
            raise

    raised = []
    with pytest.raises(KeyError, match="gone"):
        run(4, main, NETWORK)
    assert sorted(raised) == [(rank, "rank 2 (main) failed: KeyError: 'gone'") for rank in (0, 1, 3)]


def test_a_task_that_raises():
    def main(fabric):
        if fabric.rank == 1:

            def fail():
                fabric.sleep(0.1)
                raise ValueError("boom")

            fabric.spawn(fail, "helper")
        fabric.barrier()
        with pytest.raises(FabricError, match=r"rank 1 \(helper\) failed: ValueError: boom"):
            fabric.sleep(1.0)

    with pytest.raises(ValueError, match="boom"):
        run(3, main, NETWORK)


def one_leaves(fabric):
    if fabric.rank != 1:
        fabric.allreduce(torch.ones(6), algorithm="ring")


def a_task_waits(fabric):
    if fabric.rank == 0:
        fabric.spawn(lambda: fabric.queue().get(), "helper").join()
    fabric.recv(torch.zeros(1), 1 - fabric.rank, 7, BACKGROUND)


def a_task_of_a_subgroup_waits(fabric):
    group = fabric.subgroup([2, 1])
    if fabric.rank == 2:
        group.spawn(lambda: group.queue().get(), "stuck")


@pytest.mark.parametrize(
    ("main", "size", "waits"),
    [
        (one_leaves, 3, ["rank 2 (main) waits for a message from rank 1", "ended: rank 1",
                         "rank 0 (main) waits for a message from rank 2"]),
        (a_task_waits, 2, ["rank 0 (main) waits for the end of task helper", "rank 0 (helper) waits for an item of a",
                           "rank 1 (main) waits for a message from rank 0 (tag 7, channel 1)"]),
        (a_task_of_a_subgroup_waits, 3, ["rank 2 (stuck) waits for"]),  # named by its rank in the run
    ],
)  # fmt: skip
def test_a_deadlock_names_every_wait(main, size, waits):
    with pytest.raises(FabricError, match=r"^deadlock at ") as caught:
        run(size, main, NETWORK)
    assert all(wait in str(caught.value) for wait in waits)


def test_a_limit_of_virtual_seconds():
    def main(fabric):
        if fabric.rank == 0:
            fabric.sleep(100.0)
            fabric.send(torch.zeros(1), 1)
        else:
            fabric.recv(torch.zeros(1), 0, 0)

    run(2, main, NETWORK)
    with pytest.raises(FabricError, match=r"rank 1 \(main\): a message from rank 0 .*nothing after 5 s"):
        run(2, main, NETWORK, timeout_s=5.0)


def test_a_passed_limit_may_be_caught():
    def main(fabric):
        if fabric.rank == 0:
            fabric.sleep(2.0)
            fabric.send(torch.ones(1), 1)
            return None
        value = torch.zeros(1)
        work = fabric.irecv(value, 0)
        for _ in range(3):
            with contextlib.suppress(FabricError):
                work.wait(timeout=0.9)
        return value.item(), fabric.now()

    assert run(2, main, NETWORK)[1] == (1.0, close(2.0 + ALPHA + 4 * BETA))
