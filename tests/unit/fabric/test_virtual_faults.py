"""What only the virtual fabric promises: deadlocks found, errors and limits named."""

import contextlib

import pytest
import torch

from repro.fabric.base import BACKGROUND, FabricError
from repro.fabric.virtual import run
from tests.support.virtual import ALPHA, BETA, NETWORK, close

# how runs end badly


def test_a_rank_that_raises():
    def main(fabric):
        if fabric.rank == 2:
            fabric.sleep(1.0)
            raise KeyError("gone")
        try:
            fabric.recv(torch.zeros(1), 2)
        except FabricError as error:
            heard.append((fabric.rank, str(error)))
            raise

    heard = []
    with pytest.raises(KeyError, match="gone"):
        run(4, main, NETWORK)
    assert sorted(heard) == [(rank, "rank 2 (main) failed: KeyError: 'gone'") for rank in (0, 1, 3)]


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


def test_a_rank_that_leaves_early():
    def main(fabric):
        if fabric.rank != 1:
            fabric.allreduce(torch.ones(6), algorithm="ring")

    with pytest.raises(FabricError) as caught:
        run(3, main, NETWORK)
    said = str(caught.value)
    assert said.startswith("deadlock at ")
    assert "rank 2 (main) waits for a message from rank 1" in said
    assert "rank 0 (main) waits for a message from rank 2" in said
    assert said.endswith("ended: rank 1")


def test_a_deadlock_names_everybody():
    def main(fabric):
        def helper():
            fabric.queue().get()

        if fabric.rank == 0:
            fabric.spawn(helper, "helper").join()
        fabric.recv(torch.zeros(1), 1 - fabric.rank, 7, BACKGROUND)

    with pytest.raises(FabricError) as caught:
        run(2, main, NETWORK)
    said = str(caught.value)
    for part in (
        "rank 0 (main) waits for the end of task helper",
        "rank 0 (helper) waits for an item of a queue",
        "rank 1 (main) waits for a message from rank 0 (tag 7, channel 1)",
    ):
        assert part in said


def test_a_task_of_a_subgroup_is_named_by_its_rank_of_the_run():
    def main(fabric):
        group = fabric.subgroup([2, 1])
        if fabric.rank == 2:
            group.spawn(lambda: group.queue().get(), "stuck")

    with pytest.raises(FabricError, match=r"rank 2 \(stuck\) waits for"):
        run(3, main, NETWORK)


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


def test_an_outdated_limit_wakes_nobody():
    def main(fabric):
        if fabric.rank == 0:
            fabric.send(torch.ones(1), 1)
            fabric.sleep(2.0)
            fabric.send(torch.ones(1), 1)
        else:
            fabric.irecv(torch.zeros(1), 0).wait(timeout=1.0)
            fabric.irecv(torch.zeros(1), 0).wait()  # over the first limit's moment
            return fabric.now()

    assert run(2, main, NETWORK)[1] == close(2.0 + ALPHA + 8 * BETA)


def test_nothing_is_left_after_a_bad_end():
    """The next run in this process is not disturbed."""
    for _ in range(3):
        with pytest.raises(FabricError, match="deadlock"):
            run(4, lambda fabric: fabric.recv(torch.zeros(1), 0), NETWORK)
    assert run(2, lambda fabric: fabric.exchange(fabric.rank), NETWORK) == [[0, 1]] * 2
