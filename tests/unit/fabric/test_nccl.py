"""NCCL without NCCL: the fabric's calls of torch, the watchdog, and NCCL's rules on a CPU, where hangs are errors."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch

from repro.fabric.base import ANY_SOURCE, BACKGROUND, MAIN, FabricError
from repro.fabric.real import nccl, torch_start
from repro.fabric.real.nccl import Watchdog
from repro.fabric.real.threads import TaskGroup
from repro.testing.nccl import by_nccls_rules
from tests.support.virtual import NETWORK

# --- the fabric and the watchdog, with made-up transfers and time


class Transfer:
    def __init__(self):
        self.over, self.waited = False, 0

    def is_completed(self):
        return self.over

    def wait(self):
        self.waited += 1


@pytest.fixture
def fabric(monkeypatch):
    """Rank 1 of 4, in a group of ranks 1, 3; `started` has the batches passed to torch."""
    made = object.__new__(nccl.NcclFabric)
    made.ranks, made.rank, made.size, made.groups, made.bytes_sent = [1, 3], 0, 2, ["main", "beside"], 0
    made.tasks, made.batches, made.timeout_s, made.started = TaskGroup(1, 120.0), {}, 120.0, []
    made.watchdog = Watchdog(made.tasks, lambda: made.clock)
    made.clock = 0.0

    def begin(parts):
        made.started.append([(part[0].__name__, part[1].numel(), *part[2:]) for part in parts])
        made.transfer = Transfer()
        return [made.transfer]

    monkeypatch.setattr(nccl.dist, "P2POp", lambda *part: part)
    monkeypatch.setattr(nccl.dist, "batch_isend_irecv", begin)
    return made


def test_an_exchange_is_one_batch_and_a_lone_transfer_one_too(fabric):
    receive, send = fabric.sendrecv(torch.zeros(3), 1, torch.zeros(2), 1, channel=BACKGROUND)
    assert fabric.started == [[("irecv", 8, 3, "beside"), ("isend", 12, 3, "beside")]]
    receive.wait()
    send.wait()
    assert fabric.transfer.waited == 1 and fabric.bytes_sent == 12
    fabric.send(torch.zeros(1, dtype=torch.bool), 1)
    assert fabric.started[1:] == [[("isend", 1, 3, "main")]] and fabric.transfer.waited == 1


def test_the_watchdog_keeps_no_message(fabric):
    message = torch.zeros(3)
    kept = weakref.ref(message)
    fabric.send(message, 1)
    del message
    gc.collect()
    assert kept() is None and fabric.watchdog.check() is None
    fabric.clock = 121.0
    assert "send to rank 3" in str(fabric.watchdog.check())


def test_the_gpu_is_chosen_before_the_first_collective(monkeypatch):
    done = []
    monkeypatch.setattr(torch_start, "rendezvous", lambda *_, **__: iter([(SimpleNamespace(set_timeout=print), 1, 3)]))
    monkeypatch.setattr(torch_start, "gather_seats", lambda *_: [])
    monkeypatch.setattr(torch_start, "choose_backend", lambda *_: "nccl")
    monkeypatch.setattr(torch_start.dist, "PrefixStore", lambda *_: None)
    monkeypatch.setattr(torch_start.dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(torch_start, "pick_device", lambda device, rank: done.append((device, rank)))
    monkeypatch.setattr(torch_start, "NcclFabric", lambda *_: done.append("fabric"))
    torch_start.start("cuda", "nccl", 120.0)
    assert done == [("cuda", 1), "fabric"]


def test_an_open_batch_takes_in_its_own_channel_and_task_alone(fabric):
    with fabric.batch(MAIN):
        fabric.isend(torch.zeros(1), 1, channel=MAIN)
        fabric.isend(torch.zeros(1), 1, channel=BACKGROUND)
        fabric.spawn(lambda: fabric.isend(torch.zeros(1), 1, channel=MAIN)).join()
        assert [len(parts) for parts in fabric.started] == [1, 1]
        fabric.isend(torch.zeros(0), 1)  # nothing to send
    assert [len(parts) for parts in fabric.started] == [1, 1, 1] and not fabric.batches


def test_an_error_in_a_batch_begins_nothing(fabric):
    with pytest.raises(ZeroDivisionError), fabric.batch():
        fabric.isend(torch.zeros(1), 1)
        1 / 0  # noqa: B018
    assert fabric.started == [] and not fabric.batches


def test_the_watchdog_names_the_first_that_does_not_end(fabric):
    """Rank, task, operation, peer and seconds; what waits behind it in the same stream is not late."""
    fabric.isend(torch.zeros(1), 1)
    first = fabric.transfer
    fabric.clock = 100.0
    assert fabric.watchdog.check() is None
    fabric.irecv(torch.zeros(1), 1)
    fabric.clock, first.over = 119.0, True
    assert fabric.watchdog.check() is None
    fabric.clock = 200.0
    assert fabric.watchdog.check() is None  # 81 s since it became the first, 100 since its start
    fabric.clock = 240.0
    assert str(fabric.watchdog.check()) == "rank 1 (main): receive from rank 3 (channel 0): nothing after 121 s"


def test_who_waits_for_something_else_hears_of_it_and_who_hangs_is_ended(fabric, monkeypatch):
    monkeypatch.setattr("repro.fabric.real.nccl.CHECK_S", 0.0)
    monkeypatch.setattr("repro.fabric.real.nccl.GRACE_S", 0.0)
    last_words: list[str] = []
    fabric.tasks.on_fatal = lambda error: last_words.append(str(error))
    fabric.sendrecv(torch.zeros(1), 1, torch.zeros(1), 1)
    fabric.clock = 121.0
    fabric.watchdog.start()
    message = r"rank 1 \(main\): receive from rank 3 .* with send to rank 3 .*nothing after 121 s"
    with pytest.raises(FabricError, match=message):
        fabric.queue().get()
    fabric.watchdog.thread.join(10)
    assert len(last_words) == 1 and "receive from rank 3" in last_words[0]


# --- its rules


def run(size, main):
    return by_nccls_rules(size, main, NETWORK)


def connect(fabric, channel=0):
    """Open the connections between neighbours in both directions."""
    for to, source in ((1, -1), (-1, 1)):
        ends = (fabric.rank + to) % fabric.size, (fabric.rank + source) % fabric.size
        for work in fabric.sendrecv(torch.zeros(1), ends[0], torch.zeros(1), ends[1], channel=channel):
            work.wait()


def buffer(n=3):
    return torch.zeros(n)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_an_exchange_in_one_batch_succeeds(size):
    def main(fabric):
        mine, theirs = torch.full((3,), float(fabric.rank)), buffer()
        for work in fabric.sendrecv(mine, (fabric.rank + 1) % size, theirs, (fabric.rank - 1) % size):
            work.wait()
        return theirs[0].item()

    assert run(size, main) == [float((rank - 1) % size) for rank in range(size)]


def test_tags_are_ignored():
    def main(fabric):
        if fabric.rank == 0:
            for tag in (1, 2):
                fabric.send(torch.full((1,), float(tag)), 1, tag)
            return None
        received = [buffer(1), buffer(1)]
        fabric.recv(received[0], 0, 2)
        fabric.recv(received[1], 0, 1)
        return [vector.item() for vector in received]

    assert run(2, main)[1] == [1, 2]


def receive_late(fabric):
    """On other fabrics, and here once a connection is open, a receive may be posted long before its send."""
    if fabric.rank == 0:
        receive = fabric.irecv(buffer(), 1, channel=BACKGROUND)
        fabric.exchange("posted")
        receive.wait()
    else:
        fabric.exchange("posted")
        fabric.send(buffer(), 0, channel=BACKGROUND)


def test_an_open_connection_takes_an_early_receive():
    run(2, lambda fabric: (connect(fabric, BACKGROUND), receive_late(fabric)))


def both_begin_with(first, second):
    def main(fabric):
        connect(fabric)
        begin = {"send": fabric.isend, "receive": fabric.irecv}
        for work in [begin[kind](buffer(), 1 - fabric.rank, 7) for kind in (first, second)]:
            work.wait()

    return main


def behind_another_peer(fabric):
    """Rank 1 has what rank 0 wants second, but not what it wants first: one stream, whatever the peers."""
    connect(fabric)
    if fabric.rank == 0:
        fabric.irecv(buffer(), 2)
        fabric.recv(buffer(), 1)
    elif fabric.rank == 1:
        fabric.send(buffer(), 0)
        fabric.recv(buffer(), 2)
    else:
        fabric.recv(buffer(), 1)


def sizes_differ(fabric):
    if fabric.rank == 0:
        fabric.send(buffer(3), 1)
    else:
        fabric.recv(buffer(2), 0)


def two_tasks_share_a_channel(fabric):
    connect(fabric)
    peer = 1 - fabric.rank
    if fabric.rank == 0:
        receive = fabric.irecv(buffer(), peer)
        fabric.spawn(lambda: fabric.send(buffer(), peer), "sender").join()
        receive.wait()
    else:
        fabric.sleep(1)
        for work in fabric.sendrecv(buffer(), peer, buffer(), peer):
            work.wait()


def collectives_in_different_orders(fabric):
    steps = [lambda: fabric.allreduce(buffer(2)), lambda: fabric.broadcast(buffer(2))]
    for step in steps if fabric.rank else reversed(steps):
        step()


def never_waited_for(fabric):
    connect(fabric)
    if fabric.rank == 0:
        fabric.irecv(buffer(1), 1)


def peer_ends_early(fabric):
    connect(fabric)
    if fabric.rank == 0:
        fabric.recv(buffer(1), 1)


ERRORS = [
    (both_begin_with("receive", "send"), 2, r"deadlock.*rank 0 \(main\) waits for receive from rank 1 \(channel 0\), "
     "first in the stream, while rank 1's first is receive from rank 0"),
    (both_begin_with("send", "receive"), 2, r"deadlock.*rank 0 \(main\) waits for send to rank 1 \(channel 0\), "
     "first in the stream, while rank 1's first is send to rank 0"),
    (behind_another_peer, 3, "receive from rank 1 .*behind receive from rank 2 in the stream"),
    (receive_late, 2, r"to open a connection \(channel 1; waiting: rank 0: receive from rank 1\)"),
    (sizes_differ, 2, "rank 1: receive from rank 0 .*expects 8 bytes, but rank 0's first send to it has 12"),
    (two_tasks_share_a_channel, 2, "rank 0: tasks main and sender have receive from rank 1 and send to rank 1"),
    (collectives_in_different_orders, 2, "rank 1 has reached allreduce of 8 bytes .*rank 0 has reached broadcast from"),
    (never_waited_for, 2, "unfinished at the end: rank 0: receive from rank 1"),
    (peer_ends_early, 2, r"rank 0 \(main\) waits for receive from rank 1 .* rank 1's first is none"),
    (lambda fabric: fabric.recv(buffer(1), ANY_SOURCE), 2, "rank 0: receive from any rank"),
]  # fmt: skip


@pytest.mark.parametrize(("main", "size", "message"), ERRORS)
def test_an_order_that_hangs_on_nccl_is_an_error(main, size, message):
    with pytest.raises(FabricError, match=message):
        run(size, main)
