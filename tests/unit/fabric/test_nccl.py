"""NCCL without NCCL: what its fabric asks of torch, the watchdog, and its rules on a CPU, where orders that would hang
there are errors that name who waits for whom, and for what."""

from __future__ import annotations

import gc
import re
import weakref
from types import SimpleNamespace

import pytest
import torch

from repro.fabric.base import ANY_SOURCE, BACKGROUND, MAIN, FabricError
from repro.fabric.real import nccl, torch_start
from repro.fabric.real.threads import TaskGroup
from repro.fabric.real.watchdog import Watchdog
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
    """Rank 1 of 4, in a group of ranks 1, 3; `asked` has the batches that torch was given."""
    made = object.__new__(nccl.NcclFabric)
    made.ranks, made.rank, made.size, made.groups, made.bytes_sent = [1, 3], 0, 2, ["main", "beside"], 0
    made.tasks, made.batches, made.timeout_s, made.asked = TaskGroup(1, 120.0), {}, 120.0, []
    made.watchdog = Watchdog(made.tasks, lambda: made.clock)
    made.clock = 0.0

    def begin(parts):
        made.asked.append([(part[0].__name__, part[1].numel(), *part[2:]) for part in parts])
        made.transfer = Transfer()
        return [made.transfer]

    monkeypatch.setattr(nccl.dist, "P2POp", lambda *part: part)
    monkeypatch.setattr(nccl.dist, "batch_isend_irecv", begin)
    return made


def test_an_exchange_is_one_batch_and_a_lone_transfer_one_too(fabric):
    receive, send = fabric.sendrecv(torch.zeros(3), 1, torch.zeros(2), 1, channel=BACKGROUND)
    assert fabric.asked == [[("irecv", 8, 3, "beside"), ("isend", 12, 3, "beside")]]
    receive.wait()
    send.wait()
    assert fabric.transfer.waited == 1 and fabric.bytes_sent == 12
    fabric.send(torch.zeros(1, dtype=torch.bool), 1)
    assert fabric.asked[1:] == [[("isend", 1, 3, "main")]] and fabric.transfer.waited == 1


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
    monkeypatch.setattr(torch_start, "gather", lambda *_: [])
    monkeypatch.setattr(torch_start, "choose", lambda *_: "nccl")
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
        assert [len(parts) for parts in fabric.asked] == [1, 1]
        fabric.isend(torch.zeros(0), 1)  # nothing to send
    assert [len(parts) for parts in fabric.asked] == [1, 1, 1] and not fabric.batches


def test_an_error_in_a_batch_begins_nothing(fabric):
    with pytest.raises(ZeroDivisionError), fabric.batch():
        fabric.isend(torch.zeros(1), 1)
        1 / 0  # noqa: B018
    assert fabric.asked == [] and not fabric.batches


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
    assert fabric.watchdog.check() is None  # 81 s since it came to the front, 100 since it was begun
    fabric.clock = 240.0
    said = str(fabric.watchdog.check())
    assert said == "rank 1 (main): receive from rank 3 (channel 0): nothing after 121 s"


def test_who_waits_for_something_else_hears_of_it_and_who_hangs_is_ended(fabric, monkeypatch):
    monkeypatch.setattr("repro.fabric.real.watchdog.CHECK_S", 0.0)
    monkeypatch.setattr("repro.fabric.real.watchdog.GRACE_S", 0.0)
    last_words: list[str] = []
    fabric.tasks.on_fatal = lambda error: last_words.append(str(error))
    fabric.sendrecv(torch.zeros(1), 1, torch.zeros(1), 1)
    fabric.clock = 121.0
    fabric.watchdog.start()
    said = r"rank 1 \(main\): receive from rank 3 .* with send to rank 3 .*nothing after 121 s"
    with pytest.raises(FabricError, match=said):
        fabric.queue().get()
    fabric.watchdog.thread.join(10)
    assert len(last_words) == 1 and "receive from rank 3" in last_words[0]


# --- its rules


def run(size, main):
    return by_nccls_rules(size, main, NETWORK)


def connect(fabric, *channels):
    """Every direction between neighbours has been used."""
    for channel in channels or (0,):
        for to, source in ((1, -1), (-1, 1)):
            word, heard = torch.zeros(1), torch.zeros(1)
            ends = (fabric.rank + to) % fabric.size, (fabric.rank + source) % fabric.size
            for work in fabric.sendrecv(word, ends[0], heard, ends[1], channel=channel):
                work.wait()


def vectors(fabric, n=3):
    return torch.full((n,), float(fabric.rank)), torch.empty(n)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_an_exchange_in_one_batch_comes_through(size):
    def main(fabric):
        mine, theirs = vectors(fabric)
        left, right = (fabric.rank - 1) % size, (fabric.rank + 1) % size
        for work in fabric.sendrecv(mine, right, theirs, left):
            work.wait()
        return theirs[0].item()

    assert run(size, main) == [float((rank - 1) % size) for rank in range(size)]


@pytest.mark.parametrize("first, second", [("receive", "send"), ("send", "receive")])
def test_two_that_begin_with_the_same_hang(first, second):
    def main(fabric):
        connect(fabric)
        mine, theirs = vectors(fabric)
        peer = 1 - fabric.rank
        begin = {"send": lambda: fabric.isend(mine, peer, 7), "receive": lambda: fabric.irecv(theirs, peer, 7)}
        for work in [begin[first](), begin[second]()]:
            work.wait()

    word = {"send": "send to", "receive": "receive from"}
    said = rf"rank 0 \(main\) waits for {word[first]} rank 1 \(channel 0\), first in the stream, while rank 1's "
    with pytest.raises(FabricError, match=f"deadlock.*{said}stands at {word[first]} rank 0"):
        run(2, main)


def test_a_transfer_behind_one_that_waits_waits_too():
    """Rank 1 has what rank 0 wants next, but not what it wants first: one stream, however many peers."""

    def main(fabric):
        connect(fabric)
        mine, theirs = vectors(fabric)
        if fabric.rank == 0:
            fabric.irecv(torch.empty(3), 2)
            fabric.recv(theirs, 1)
        elif fabric.rank == 1:
            fabric.send(mine, 0)
            fabric.recv(theirs, 2)
        else:
            fabric.recv(theirs, 1)

    with pytest.raises(FabricError, match=r"receive from rank 1 .*behind receive from rank 2 in the stream"):
        run(3, main)


def test_the_first_use_between_two_ranks_waits_in_the_call():
    """On other fabrics, and here between ranks that have talked already, a receive may be posted long before."""

    def main(fabric, warm):
        mine, theirs = vectors(fabric)
        if warm:
            connect(fabric, BACKGROUND)
        if fabric.rank == 0:
            receive = fabric.irecv(theirs, 1, channel=BACKGROUND)
            fabric.exchange("posted")
            receive.wait()
        else:
            fabric.exchange("posted")
            fabric.send(mine, 0, channel=BACKGROUND)

    run(2, lambda fabric: main(fabric, warm=True))
    with pytest.raises(FabricError, match=r"to open a connection \(channel 1; there is rank 0: receive from rank 1\)"):
        run(2, lambda fabric: main(fabric, warm=False))


def test_tags_count_for_nothing():
    def main(fabric):
        if fabric.rank == 0:
            for tag in (1, 2):
                fabric.send(torch.full((1,), float(tag)), 1, tag)
            return None
        found = torch.empty(1)
        fabric.recv(found, 0, 2)
        first = found.item()
        fabric.recv(found, 0, 1)
        return first

    assert run(2, main)[1] == 1


def test_a_message_of_another_size_is_named():
    def main(fabric):
        if fabric.rank == 0:
            fabric.send(torch.zeros(3), 1)
        else:
            fabric.recv(torch.zeros(2), 0)

    with pytest.raises(FabricError, match=r"rank 1: receive from rank 0 .*expects 8 bytes.*rank 0 has for it are 12"):
        run(2, main)


def test_tasks_that_share_a_channel_at_once_are_refused():
    def main(fabric):
        connect(fabric)
        mine, theirs = vectors(fabric)
        peer = 1 - fabric.rank
        if fabric.rank == 0:
            receive = fabric.irecv(theirs, peer)
            fabric.spawn(lambda: fabric.send(mine, peer), "sender").join()
            receive.wait()
        else:
            fabric.sleep(1)
            for work in fabric.sendrecv(mine, peer, theirs, peer):
                work.wait()

    with pytest.raises(FabricError, match=r"rank 0: tasks main and sender have receive from rank 1 and send to rank 1"):
        run(2, main)


def test_collectives_in_different_orders_are_named():
    def main(fabric):
        vector = torch.ones(2)
        steps = [lambda: fabric.allreduce(vector), lambda: fabric.broadcast(vector)]
        for step in steps if fabric.rank else reversed(steps):
            step()

    with pytest.raises(FabricError, match=r"rank 1 has come to allreduce of 8 bytes .*rank 0 to broadcast from rank 0"):
        run(2, main)


def test_what_nobody_waits_for_is_found_at_the_end():
    def main(fabric):
        connect(fabric)
        if fabric.rank == 0:
            fabric.irecv(torch.empty(1), 1)

    with pytest.raises(FabricError, match=r"left behind at the end: rank 0: receive from rank 1"):
        run(2, main)


def test_there_is_no_any_source():
    with pytest.raises(FabricError, match="rank 0: receive from any rank"):
        run(2, lambda fabric: fabric.recv(torch.empty(1), ANY_SOURCE))


def test_a_rank_that_ends_early_is_seen():
    def main(fabric):
        connect(fabric)
        if fabric.rank == 0:
            fabric.recv(torch.empty(1), 1)

    with pytest.raises(FabricError) as error:
        run(2, main)
    assert re.search(r"rank 0 \(main\) waits for receive from rank 1 .* rank 1's stands at its end", str(error.value))
