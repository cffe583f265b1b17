"""Conformance checks of one fabric: subgroups, tasks and what they wait on."""

from __future__ import annotations

import contextlib

import pytest
import torch

from repro.fabric.base import BACKGROUND, FabricError, TaskCancelled
from tests.support.fabric_checks.common import Skip, meet, need, neighbours, numbers


def check_subgroups(fabric):
    """Several, overlapping, with traffic in all of them at once."""
    wanted = [list(range(fabric.size)), list(range(0, fabric.size, 2)), list(range(fabric.size - 1, fabric.size))]
    wanted += [[rank, (rank + 1) % fabric.size] for rank in range(fabric.size) if fabric.size > 1]
    groups = [fabric.subgroup(ranks) for ranks in wanted]
    for ranks, group in zip(wanted, groups):
        assert (group is not None) == (fabric.rank in ranks)
        if group is None:
            continue
        assert group.size == len(ranks) and ranks[group.rank] == fabric.rank
        vector = torch.full((5,), float(fabric.rank))
        group.allreduce(vector, algorithm="ring")
        assert vector[0].item() == sum(ranks)
        vector = torch.full((5,), float(fabric.rank))
        group.allreduce(vector).wait()
        assert vector[0].item() == sum(ranks)
        vector = torch.full((1,), float(fabric.rank))
        group.broadcast(vector, group.size - 1)
        assert vector.item() == ranks[-1]
        group.barrier()
    vector = torch.ones(3)
    fabric.allreduce(vector, algorithm="ring")  # the whole still works
    assert vector[0].item() == fabric.size


def check_subgroup_keeps_the_order_given(fabric):
    ranks = list(reversed(range(fabric.size)))
    group = fabric.subgroup(ranks)
    assert group.rank == fabric.size - 1 - fabric.rank
    assert group.exchange(fabric.rank) == ranks
    assert [part.item() for part in group.allgather(torch.tensor([fabric.rank]))] == ranks
    vector = torch.tensor([float(fabric.rank)])
    group.broadcast(vector, 0)
    assert vector.item() == fabric.size - 1
    if group.size > 1:
        left, right = neighbours(group)
        receive, send = group.sendrecv(torch.tensor([float(fabric.rank)]), right, vector, left)
        send.wait()
        receive.wait()
        assert vector.item() == ranks[left] and receive.source in (left, None)


def check_subgroup_traffic_is_apart(fabric):
    need(fabric, "tags")
    group = fabric.subgroup(range(fabric.size))
    left, right = neighbours(fabric)
    sends = [fabric.isend(torch.tensor([1.0]), right, 1), group.isend(torch.tensor([2.0]), right, 1)]
    incoming = torch.zeros(1)
    group.recv(incoming, left, 1)
    assert incoming.item() == 2
    fabric.recv(incoming, left, 1)
    assert incoming.item() == 1
    for send in sends:
        send.wait()


def check_subgroup_of_a_subgroup(fabric):
    """A fabric that does not support it raises an error."""
    need(fabric, ranks=3)
    outer = fabric.subgroup([1, 2])
    if outer is not None and fabric.name == "torch":
        with pytest.raises(FabricError, match=r"torch.*subgroup"):
            outer.subgroup([1])
    elif outer is not None:
        inner = outer.subgroup([1])
        assert (inner is not None) == (fabric.rank == 2)
        if inner is not None:
            assert inner.size == 1 and inner.exchange("x") == ["x"]
        again = outer.subgroup([1, 0])
        assert again.exchange(fabric.rank) == [2, 1]
    meet(fabric)


def check_subgroup_tasks_are_the_ranks_tasks(fabric):
    """A task keeps its name, and can be cancelled, whichever group's fabric it waits on."""
    need(fabric, "test")
    group = fabric.subgroup(range(fabric.size))
    group.timeout_s = 1.0
    names, (left, _) = [], neighbours(fabric)
    started = fabric.event()

    def listen():
        names.append(group.current_task())
        started.set()
        group.recv(torch.zeros(1), left)

    task = fabric.spawn(listen, "listener")
    started.wait()
    task.cancel()
    assert task.join() is None
    assert names == ["listener"]


def check_exchange(fabric):
    for i in range(3):
        objects = fabric.exchange({"rank": fabric.rank, "list": [None] * fabric.rank, "i": i})
        assert objects == [{"rank": rank, "list": [None] * rank, "i": i} for rank in range(fabric.size)]


def check_task_results(fabric):
    names = []
    tasks = [fabric.spawn(lambda i=i: (names.append(fabric.current_task()), i * i)[1], f"task{i}") for i in range(3)]
    assert [task.join() for task in tasks] == [0, 1, 4]
    assert tasks[1].join() == 1  # again
    assert sorted(names) == ["task0", "task1", "task2"] and [task.name for task in tasks] == sorted(names)
    assert fabric.current_task() == "main"
    outer = fabric.spawn(lambda: fabric.spawn(fabric.current_task, "inner").join(), "outer")
    assert outer.join() == "inner"


def check_cancel_a_waiting_task(fabric):
    queue, event, forever = fabric.queue(), fabric.event(), float("inf")
    waits = [lambda: queue.get(timeout=forever), lambda: event.wait(timeout=forever)]
    if "test" in fabric.capabilities and fabric.size > 1:
        waits.append(lambda: fabric.recv(torch.zeros(1), neighbours(fabric)[0], 1, BACKGROUND))
    for wait in waits:
        started, ended = fabric.event(), []

        def body(started=started, wait=wait, ended=ended):
            started.set()
            try:
                wait()
            finally:
                ended.append(True)

        task = fabric.spawn(body, "waiter")
        started.wait()
        task.cancel()
        assert task.join() is None and ended == [True]
        task.cancel()  # no effect


def check_a_cancelled_tasks_next_receive(fabric):
    need(fabric)
    left, _ = neighbours(fabric)
    fabric.timeout_s = 1.0
    started, gate = fabric.event(), fabric.event()

    def stubborn():
        started.set()
        with contextlib.suppress(TaskCancelled):
            gate.wait()
        fabric.recv(torch.zeros(1), left, 1, BACKGROUND)

    task = fabric.spawn(stubborn, "stubborn")
    started.wait()
    task.cancel()
    assert task.join() is None


def check_task_errors_reach_the_rank(fabric):
    need(fabric)
    if hasattr(fabric, "scheduler"):
        raise Skip("ends the whole virtual run: see test_virtual_faults.py")
    left, _ = neighbours(fabric)
    fabric.timeout_s = 2.0

    def fail():
        raise ValueError("boom")

    task = fabric.spawn(fail, "faulty")
    with pytest.raises(ValueError, match="boom"):
        fabric.queue().get()
    with pytest.raises(ValueError, match="boom"):
        fabric.recv(torch.zeros(1), left)
    with pytest.raises(ValueError, match="boom"):
        task.join()


def check_communication_thread(fabric):
    """Concurrent allreduces on BACKGROUND in a task and on MAIN in the main task; five rounds by a queue."""
    todo, ready = fabric.queue(), fabric.queue()

    def communicate():
        while (vector := todo.get()) is not None:
            fabric.allreduce(vector, channel=BACKGROUND, algorithm="ring")
            ready.put(vector)
        return "over"

    task = fabric.spawn(communicate, "communication")
    for round_ in range(5):
        mine, theirs = numbers(1001, fabric.rank + round_), numbers(777, fabric.rank - round_ + 50)
        todo.put(mine)
        fabric.allreduce(theirs).wait()
        assert torch.equal(theirs, sum(numbers(777, rank - round_ + 50) for rank in range(fabric.size)))
        assert torch.equal(ready.get(), sum(numbers(1001, rank + round_) for rank in range(fabric.size)))
    todo.put(None)
    assert task.join() == "over"


def check_queue(fabric):
    queue, got = fabric.queue(), []
    for i in range(3):
        queue.put(i)
    assert len(queue) == 3
    assert [queue.get() for _ in range(3)] == [0, 1, 2] and len(queue) == 0
    tasks = [fabric.spawn(lambda: got.append(queue.get()), f"taker{i}") for i in range(3)]
    for i in range(3):
        queue.put(i)
    for task in tasks:
        task.join()
    assert sorted(got) == [0, 1, 2]
    queue.put(None)
    assert queue.get() is None


def check_event(fabric):
    event, log = fabric.event(), []
    assert not event.is_set()
    tasks = [fabric.spawn(lambda: (event.wait(), log.append(1)), f"waiter{i}") for i in range(3)]
    fabric.sleep(0.02)
    assert log == []
    event.set()
    for task in tasks:
        task.join()
    assert log == [1, 1, 1] and event.is_set()
    event.wait()
    event.clear()
    assert not event.is_set()


def check_lock(fabric):
    lock, count = fabric.lock(), [0]

    def add():
        for _ in range(5):
            with lock:
                before = count[0]
                fabric.sleep(0.001)
                count[0] = before + 1

    tasks = [fabric.spawn(add, f"adder{i}") for i in range(3)]
    for task in tasks:
        task.join()
    assert count == [15]
