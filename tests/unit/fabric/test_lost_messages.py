"""Lost packets: a share of messages comes late by a time-out, the same ones in every run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from repro.fabric.virtual.fabric import Network, run
from tests.support.virtual import ALPHA, BETA, KB

MESSAGES, LATE = 400, 50.0
LOSSY = Network(ALPHA, BETA, lost=0.25, resend=LATE)


def seconds_of_messages(network: Network, start: float = 0.0) -> list[float]:
    """How long each of some messages takes from rank 0 to rank 1, sent far apart."""

    def main(fabric):
        block, times = torch.empty(KB, dtype=torch.uint8, device="meta"), []
        for number in range(MESSAGES):
            begin = 1e3 * (number + 1)
            if begin <= start:
                continue
            fabric.sleep(begin - fabric.now())
            if fabric.rank == 0:
                fabric.send(block, 1)
            else:
                fabric.recv(block, 0)
                times.append(fabric.now() - begin)
        return times

    return run(2, main, network)[1]


@pytest.mark.parametrize("fair", [False, True])
def test_a_share_of_messages_waits_for_the_time_out(fair):
    times = seconds_of_messages(replace(LOSSY, fair=fair))
    in_time = seconds_of_messages(replace(LOSSY, fair=fair, lost=0.0))
    waits = [round(late - soon, 6) for late, soon in zip(times, in_time, strict=True)]
    assert set(waits) == {0.0, LATE}
    assert 0.15 < waits.count(LATE) / MESSAGES < 0.35


def test_the_seed_and_the_time_decide_which_messages_are_lost():
    times = seconds_of_messages(LOSSY)
    assert seconds_of_messages(LOSSY) == times != seconds_of_messages(replace(LOSSY, seed=1))
    assert seconds_of_messages(LOSSY, start=1e5) == times[100:]  # as after a resumed run


def test_a_ring_waits_for_a_lost_message():
    def ring(network: Network) -> float:
        vector = torch.empty(KB, device="meta")
        return max(run(8, lambda fabric: (fabric.allreduce(vector, algorithm="ring"), fabric.now())[1], network))

    waits = (ring(LOSSY) - ring(replace(LOSSY, lost=0.0))) / LATE
    assert waits == pytest.approx(round(waits), abs=1e-3) and waits >= 1
