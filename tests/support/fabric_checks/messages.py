"""Conformance checks of one fabric: sending and receiving."""

from __future__ import annotations

import pytest
import torch

from repro.fabric.base import ANY_SOURCE, BACKGROUND, CHANNELS, LIBRARIES, DoneWork, FabricError
from tests.support.fabric_checks.common import DTYPES, SHORT_S, bits, meet, need, neighbours, noise, numbers, swap


def check_identity(fabric):
    assert 0 <= fabric.rank < fabric.size
    assert fabric.exchange(fabric.rank) == list(range(fabric.size))
    assert fabric.capabilities <= {"threads", "tags", "any_source", "test", "cancel", "sizes", *LIBRARIES}
    assert {
        library for library in LIBRARIES if LIBRARIES[library] == fabric.name
    } == fabric.capabilities & LIBRARIES.keys()
    assert "threads" in fabric.capabilities
    if fabric.name == "emulated":  # for partitioners
        assert fabric.bandwidth_Bps == pytest.approx(1.25e9)
    assert fabric.current_task() == "main"
    assert fabric.bytes_sent == 0


def check_clock(fabric):
    before = fabric.now()
    fabric.sleep(0.01)
    assert fabric.now() - before >= 0.01
    ran = []
    with fabric.compute(0.01, "host"):
        ran.append(1)
    with fabric.compute():
        ran.append(2)
    with fabric.compute(0.01, None):
        ran.append(3)
    assert ran == [1, 2, 3]


def check_payloads(fabric):
    """Every type, shape and special value arrives with the same bits."""
    need(fabric)
    left, _ = neighbours(fabric)
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, -1e-40, 3.4e38])

    def payloads(rank):
        typed = [numbers(n, rank, dtype) for dtype in DTYPES for n in (1, 7, 300)]
        return [*typed, special, *(torch.full(shape, float(rank)) for shape in ((), (1,), (3, 4), (2, 3, 5)))]

    for outgoing, expected in zip(payloads(fabric.rank), payloads(left)):
        incoming = torch.full_like(expected, 77)
        swap(fabric, outgoing, incoming)
        assert bits(incoming) == bits(expected), (expected.dtype, expected.shape)


def check_messages_without_contents(fabric):
    need(fabric, "sizes")
    left, right = neighbours(fabric)
    for n in (1, 7, 300_000):
        swap(fabric, torch.empty(n, device="meta"), torch.empty(n, device="meta"))
    assert fabric.bytes_sent == 4 * (1 + 7 + 300_000)
    meet(fabric)
    send = fabric.isend(torch.empty(5, device="meta"), right)
    with pytest.raises(FabricError, match=r"20 bytes .* 24 were expected"):
        fabric.recv(torch.empty(6, device="meta"), left)
    send.wait()


def check_collectives_without_contents(fabric):
    need(fabric, "sizes")
    vector = torch.empty(300_001, device="meta")
    for algorithm in ("auto", "ring", "recursive_doubling", "tree"):
        fabric.allreduce(vector, algorithm=algorithm)
    fabric.broadcast(vector)
    gathered = fabric.allgather(vector)
    assert len(gathered) == fabric.size
    assert all(part.is_meta and part.shape == vector.shape for part in gathered)


def check_empty_message(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    receive = fabric.irecv(torch.empty(0), left)
    fabric.send(torch.empty(0), right)
    receive.wait()
    meet(fabric)


def check_large_messages_both_ways(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    n = 1 << 18  # 1 MiB: past every eager limit
    incoming = [torch.zeros(n), torch.zeros(n)]
    with fabric.batch():
        works = [fabric.irecv(incoming[0], left, 1), fabric.irecv(incoming[1], right, 2)]
        works += [fabric.isend(noise(n, fabric.rank), right, 1), fabric.isend(noise(n, fabric.rank), left, 2)]
    for work in works:
        work.wait()
    assert torch.equal(incoming[0], noise(n, left)) and torch.equal(incoming[1], noise(n, right))


def check_blocking_send_and_receive(fabric):
    need(fabric)
    if fabric.rank == 0:
        for rank in range(1, fabric.size):
            fabric.send(torch.tensor([rank * 10.0]), rank)
        for rank in range(1, fabric.size):
            incoming = torch.zeros(1)
            assert fabric.recv(incoming, rank) == rank
            assert incoming.item() == rank * 10 + 1
    else:
        value = torch.zeros(1)
        assert fabric.recv(value, 0) == 0
        fabric.send(value + 1, 0)


def check_messages_are_matched_by_tag_and_channel_in_order(fabric):
    need(fabric, "tags")
    left, right = neighbours(fabric)
    one_tag, tags, channels = (
        [(4, 0)] * 12,
        [(tag, 0) for tag in range(6)],
        [(1, channel) for channel in range(CHANNELS)],
    )
    for ends, order in ((one_tag, range(12)), (tags, reversed(range(6))), (channels, reversed(range(CHANNELS)))):
        sends = [fabric.isend(torch.full((1 + i % 3,), float(i)), right, *end) for i, end in enumerate(ends)]
        for i in order:
            incoming = torch.zeros(1 + i % 3)
            fabric.recv(incoming, left, *ends[i])
            assert incoming[0].item() == i
        for send in sends:
            send.wait()


def check_receives_posted_before_the_sends(fabric):
    need(fabric, "tags")
    left, right = neighbours(fabric)
    incoming = [torch.zeros(2) for _ in range(4)]
    receives = [fabric.irecv(buffer, left, tag) for tag, buffer in enumerate(incoming)]
    meet(fabric)
    for tag in (2, 0, 3, 1):
        fabric.send(torch.full((2,), float(tag)), right, tag)
    for receive in receives:
        receive.wait()
    assert [buffer[0].item() for buffer in incoming] == [0, 1, 2, 3]


def check_wait_again(fabric):
    need(fabric)
    incoming = torch.zeros(1)
    receive = swap(fabric, torch.ones(1), incoming)
    receive.wait()
    receive.wait(timeout=float("inf"))
    assert incoming.item() == 1
    if "tags" in fabric.capabilities:
        assert receive.source == neighbours(fabric)[0]


def check_any_source(fabric):
    need(fabric, "any_source")
    if fabric.rank:
        for i in range(3):
            fabric.send(torch.tensor([float(100 * fabric.rank + i)]), 0, 7)
        return
    received = {rank: [] for rank in range(1, fabric.size)}
    for _ in range(3 * (fabric.size - 1)):
        incoming = torch.zeros(1)
        work = fabric.irecv(incoming, ANY_SOURCE, 7)
        work.wait()
        received[work.source].append(incoming.item())
    assert received == {rank: [100.0 * rank + i for i in range(3)] for rank in received}  # in order from each


def check_any_source_keeps_to_its_tag_and_channel(fabric):
    need(fabric, "any_source", "tags")
    if fabric.rank == 1:
        sends = [fabric.isend(torch.tensor([1.0]), 0, 1), fabric.isend(torch.tensor([2.0]), 0, 2, BACKGROUND)]
        for send in [*sends, fabric.isend(torch.tensor([3.0]), 0, 2)]:
            send.wait()
    if fabric.rank == 0:
        incoming = torch.zeros(1)
        assert fabric.recv(incoming, ANY_SOURCE, 2) == 1 and incoming.item() == 3
        assert fabric.recv(incoming, ANY_SOURCE, 2, BACKGROUND) == 1 and incoming.item() == 2
        assert fabric.recv(incoming, ANY_SOURCE, 1) == 1 and incoming.item() == 1


def check_done(fabric):
    need(fabric, "test")
    if fabric.rank == 0:
        incoming = torch.zeros(1)
        work = fabric.irecv(incoming, 1, 3)
        assert not work.done()
        fabric.send(torch.ones(1), 1, 4)  # now it may send
        for _ in range(2000):
            if work.done():
                break
            fabric.sleep(0.005)
        assert work.done() and incoming.item() == 5 and work.source == 1
        work.wait()
    elif fabric.rank == 1:
        fabric.recv(torch.zeros(1), 0, 4)
        fabric.send(torch.tensor([5.0]), 0, 3)


def check_missing_capabilities_raise(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    work, send = fabric.sendrecv(torch.ones(1), right, torch.zeros(1), left)
    if "test" not in fabric.capabilities:
        with pytest.raises(FabricError, match=f"{fabric.name}.*test"):
            work.done()
        with pytest.raises(FabricError, match=f"{fabric.name}.*test"):
            fabric.wait_any([work])
    if "cancel" not in fabric.capabilities:
        with pytest.raises(FabricError, match=f"{fabric.name}.*cancel"):
            work.cancel()
    work.wait()
    send.wait()


def check_wait_any(fabric):
    need(fabric, "test")
    if fabric.rank == 0:
        peers = list(range(1, fabric.size))
        buffers = [torch.zeros(1) for _ in peers]
        works = [fabric.irecv(buffer, peer, 5) for buffer, peer in zip(buffers, peers)]
        assert fabric.wait_any([*works, DoneWork()]) == len(works)  # already finished
        for turn in reversed(range(len(peers))):  # the last rank sends first
            fabric.send(torch.zeros(1), peers[turn], 6)
            assert fabric.wait_any(works[: turn + 1]) == turn
            assert buffers[turn].item() == peers[turn] and works[turn].source == peers[turn]
        assert fabric.wait_any(works) == 0  # the lowest, if several are done
    else:
        fabric.recv(torch.zeros(1), 0, 6)
        fabric.send(torch.tensor([float(fabric.rank)]), 0, 5)


def check_wait_any_times_out(fabric):
    need(fabric, "test")
    left, right = neighbours(fabric)
    works = [fabric.irecv(torch.zeros(1), left, 1), fabric.irecv(torch.zeros(1), right, 2)]
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*rank {left}\b.*rank {right}\b.*{SHORT_S:g} s"):
        fabric.wait_any(works, timeout=SHORT_S)


def check_a_wait_any_leaves_nothing_behind(fabric):
    """The transfers that wait_any did not return may finish while the rank waits for something else."""
    need(fabric, "test")
    if fabric.rank == 0:
        second = torch.zeros(1)
        works = [fabric.irecv(torch.zeros(1), 1, 1), fabric.irecv(second, 1, 2)]
        assert fabric.wait_any(works) == 0
        queue = fabric.queue()
        fabric.spawn(lambda: (fabric.sleep(0.2), queue.put("item")))
        assert queue.get() == "item"  # works[1] finishes meanwhile
        works[1].wait()
        assert second.item() == 2
    elif fabric.rank == 1:
        fabric.send(torch.ones(1), 0, 1)
        fabric.sleep(0.05)
        fabric.send(torch.full((1,), 2.0), 0, 2)


def check_exchange_after_wait_any(fabric):
    need(fabric, "test")
    if fabric.rank == 0:
        works = [fabric.irecv(torch.zeros(1), 1, 1), fabric.irecv(torch.zeros(1), 1, 2)]
        assert fabric.wait_any(works) == 0
    elif fabric.rank == 1:
        fabric.send(torch.ones(1), 0, 1)
        fabric.sleep(0.05)
        fabric.send(torch.ones(1), 0, 2)  # arrives while rank 0 is in the exchange
        fabric.sleep(0.05)
    assert fabric.exchange(fabric.rank) == list(range(fabric.size))
