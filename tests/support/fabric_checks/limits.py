"""Conformance checks of one fabric: cancelling, counting bytes, mismatches and time limits."""

from __future__ import annotations

import pytest
import torch

from repro.fabric.base import BACKGROUND, CONTROL, MAIN, FabricError
from tests.support.fabric_checks.common import OTHER, SHORT_S, Skip, meet, need, neighbours, swap
from tests.support.waiting import LIMIT_S


def check_cancel(fabric):
    need(fabric, "cancel", "test")
    left, right = neighbours(fabric)
    withdrawn = torch.zeros(1)
    work = fabric.irecv(withdrawn, left, 5)
    work.cancel()
    assert work.done() and work.source is None
    work.wait()
    work.cancel()
    meet(fabric)
    send = fabric.isend(torch.tensor([9.0]), right, 5)
    incoming = torch.zeros(1)
    later = fabric.irecv(incoming, left, 5)
    later.wait()
    send.wait()
    assert incoming.item() == 9 and withdrawn.item() == 0
    later.cancel()  # too late, and harmless
    assert later.source == left


def check_bytes_sent(fabric):
    need(fabric)
    expected = 0
    for channel, dtype in ((MAIN, torch.float32), (BACKGROUND, torch.int8), (OTHER, torch.bfloat16)):
        swap(fabric, torch.zeros(10, dtype=dtype), torch.zeros(10, dtype=dtype), channel)
        expected += 10 * dtype.itemsize
        assert fabric.bytes_sent == expected
    for algorithm in ("auto", "ring"):
        fabric.allreduce(torch.zeros(12 * fabric.size), algorithm=algorithm).wait()
        expected += 2 * (fabric.size - 1) * 12 * 4
        assert fabric.bytes_sent == expected
    fabric.exchange("x" * 100)  # the control plane does not count
    fabric.barrier(CONTROL)
    assert fabric.bytes_sent == expected


def check_bytes_sent_by_other_collectives(fabric):
    """A broadcast hands (p - 1) n bytes to the network, an allgather p (p - 1) n: summed over ranks, at the least."""
    need(fabric)
    fabric.broadcast(torch.zeros(100), fabric.size - 1)
    assert sum(fabric.exchange(fabric.bytes_sent)) >= (fabric.size - 1) * 400
    before = fabric.bytes_sent
    fabric.allgather(torch.zeros(100))
    assert sum(fabric.exchange(fabric.bytes_sent - before)) >= fabric.size * (fabric.size - 1) * 400


def check_mismatched_size(fabric):
    need(fabric, "tags")
    if fabric.name == "torch":
        raise Skip("gloo only asks that a message fits")
    for sent, expected in ((8, 4), (4, 8), (0, 1)):
        if fabric.rank == 0:
            with pytest.raises(FabricError, match=r"rank 0\b.*(rank 1\b|truncate)"):
                fabric.recv(torch.zeros(expected), 1, sent)
        elif fabric.rank == 1:
            fabric.send(torch.zeros(sent), 0, sent)


def check_receive_timeout(fabric):
    """Of the call, or else of the fabric."""
    need(fabric)
    left, _ = neighbours(fabric)
    if "tags" in fabric.capabilities:
        work = fabric.irecv(torch.zeros(1), left, 3)
        named = rf"rank {fabric.rank}\b.*rank {left}\b.*tag 3.*channel 0.*\b{SHORT_S:g} s"
        with pytest.raises(FabricError, match=named):
            work.wait(timeout=SHORT_S)
    fabric.timeout_s = SHORT_S
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*rank {left}\b.*\b{SHORT_S:g} s"):
        fabric.recv(torch.zeros(1), left, 3, BACKGROUND)


def check_collective_timeout(fabric):
    """One rank does not take part: the others time out."""
    need(fabric)
    fabric.timeout_s = SHORT_S
    if fabric.rank:
        with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*{SHORT_S:g} s"):
            fabric.allreduce(torch.ones(64 * fabric.size)).wait()


def check_event_and_queue_timeouts(fabric):
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*event.*{SHORT_S:g} s"):
        fabric.event().wait(timeout=SHORT_S)
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*queue.*{SHORT_S:g} s"):
        fabric.queue().get(timeout=SHORT_S)
    gate = fabric.event()
    task = fabric.spawn(lambda: gate.wait(timeout=LIMIT_S), "sleeper")
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*sleeper.*{SHORT_S:g} s"):
        task.join(timeout=SHORT_S)
    gate.set()
    task.join()


def check_a_timeout_names_what_other_tasks_wait_for(fabric):
    """With peer and operation: "an item of a queue" alone names no rank."""
    need(fabric, "tags")
    left, right = neighbours(fabric)
    queue, gate = fabric.queue(), fabric.event()

    def listen():
        gate.set()
        fabric.recv(torch.zeros(1), left, 3, BACKGROUND)

    task = fabric.spawn(listen, "listener")
    gate.wait()
    fabric.sleep(10 * SHORT_S)  # until it is in the call
    if hasattr(fabric, "tasks"):  # these ranks continue out of step, and on gloo find_missing_ranks would end channels
        fabric.tasks.missing = str
    held_up = rf"; listener has waited \S+ s for: .*rank {left} \(tag 3, channel {BACKGROUND}\)"
    for wait, what in ((queue.get, "queue"), (fabric.event().wait, "event"), (task.join, "end of task listener")):
        with pytest.raises(FabricError, match=rf"rank {fabric.rank} \(main\): .*{what}: nothing after .*{held_up}"):
            wait(timeout=SHORT_S)
    meet(fabric)
    fabric.send(torch.zeros(1), right, 3, BACKGROUND)
    task.join()


def check_a_queue_timeout_is_not_put_off(fabric):
    """A task whose item another task takes still times out when its own time has passed."""
    queue, start, got, waited = fabric.queue(), fabric.now(), [], []

    def take():
        try:
            got.append(queue.get(timeout=0.4))
        except FabricError:
            waited.append(fabric.now() - start)

    tasks = [fabric.spawn(take, f"taker{i}") for i in range(2)]
    fabric.sleep(0.3)
    queue.put(1)  # wakes both
    for task in tasks:
        task.join()
    assert len(got) + len(waited) == 2
    if fabric.name == "virtual":  # on a busy machine both may have timed out before there was an item
        assert got == [1] and waited == [pytest.approx(0.4)]
