"""The fabric of NCCL without NCCL: what it asks of torch, and the watchdog, with made-up transfers and time."""

from __future__ import annotations

import pytest
import torch

from repro.fabric import nccl
from repro.fabric.base import BACKGROUND, MAIN, FabricError
from repro.fabric.threads import Crew
from repro.fabric.watchdog import Watchdog


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
    made.crew, made.batches, made.timeout_s, made.asked = Crew(1, 120.0), {}, 120.0, []
    made.watchdog = Watchdog(made.crew, lambda: made.clock)
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
    assert fabric.watchdog.look() is None
    fabric.irecv(torch.zeros(1), 1)
    fabric.clock, first.over = 119.0, True
    assert fabric.watchdog.look() is None
    fabric.clock = 200.0
    assert fabric.watchdog.look() is None  # 81 s since it came to the front, 100 since it was begun
    fabric.clock = 240.0
    said = str(fabric.watchdog.look())
    assert said == "rank 1 (main): receive from rank 3 (channel 0): nothing after 121 s"


def test_who_waits_for_something_else_hears_of_it_and_who_hangs_is_ended(fabric, monkeypatch):
    monkeypatch.setattr("repro.fabric.watchdog.LOOK_S", 0.0)
    monkeypatch.setattr("repro.fabric.watchdog.GRACE_S", 0.0)
    last_words: list[str] = []
    fabric.crew.last_word = lambda error: last_words.append(str(error))
    fabric.sendrecv(torch.zeros(1), 1, torch.zeros(1), 1)
    fabric.clock = 121.0
    fabric.watchdog.start()
    said = r"rank 1 \(main\): receive from rank 3 .* with send to rank 3 .*nothing after 121 s"
    with pytest.raises(FabricError, match=said):
        fabric.queue().get()
    fabric.watchdog.thread.join(10)
    assert len(last_words) == 1 and "receive from rank 3" in last_words[0]
