"""Congested links: a message is slowed by the number of messages under way when it starts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from repro.algorithms.timing import collective_forms
from repro.fabric.sparse.collectives import gtopk_allreduce
from repro.fabric.sparse.gradients import Sparse, Wire
from repro.fabric.virtual.fabric import Network, run
from tests.support.virtual import ALPHA, BETA, KB, close

FACTORS = {2: 1.5, 4: 3.0, 8: 12.0}
CONGESTED = Network(ALPHA, BETA, congestion=tuple(FACTORS.items()))


def pairs(starts: list[float], network: Network = CONGESTED) -> list[float]:
    """The arrival times of messages of a KB, each between two nodes of its own."""

    def main(fabric):
        pair, receives = divmod(fabric.rank, 2)
        block = torch.empty(KB, dtype=torch.uint8, device="meta")
        if receives:
            fabric.recv(block, fabric.rank - 1)
        else:
            fabric.sleep(starts[pair])
            fabric.send(block, fabric.rank + 1)
        return fabric.now()

    return run(2 * len(starts), main, network)[1::2]


def test_a_lone_message_is_not_slowed():
    assert pairs([0.0]) == pairs([0.0], Network(ALPHA, BETA))


@pytest.mark.parametrize("messages", FACTORS)
def test_messages_that_start_together_count_for_each_other(messages):
    assert pairs([0.0] * messages) == [close(ALPHA + KB * BETA * FACTORS[messages])] * messages


def test_only_messages_under_way_count():
    after = 2 * KB * BETA  # the first has left by then
    assert pairs([0.0, after]) == [close(ALPHA + KB * BETA), close(after + ALPHA + KB * BETA)]


def test_the_slowdown_is_interpolated_and_constant_beyond_the_last_entry():
    factors = [CONGESTED.slowdown(n) for n in range(1, 10)]
    assert factors == sorted(factors) and factors[0] == 1.0 and factors[1:8:2][-1] == factors[8] == 12.0
    assert CONGESTED.slowdown(3) == pytest.approx(1.5 * 2 ** (0.5849625 / 1.0))


@pytest.mark.parametrize("p", FACTORS)
def test_a_ring_has_as_many_messages_under_way_as_workers(p):
    elements = 64 * p

    def main(fabric):
        fabric.allreduce(torch.empty(elements, device="meta"), algorithm="ring")
        return fabric.now()

    assert max(run(p, main, CONGESTED)) == close(
        collective_forms.ring_seconds(p, 4 * elements, ALPHA, BETA * FACTORS[p])
    )


def test_a_tree_of_sparse_messages_is_slowed_less_in_each_round():
    k, wire = 100, Wire(100)

    def main(fabric):
        mine = Sparse(torch.empty(k, device="meta"), torch.empty(k, dtype=torch.int32, device="meta"))
        gtopk_allreduce(fabric, mine, wire)
        return fabric.now()

    rounds = [CONGESTED.slowdown(messages) for messages in (4, 2, 1)]
    network = replace(CONGESTED, alpha=0.0)  # with a latency the rounds of the broadcast overlap
    assert max(run(8, main, network)) == close(2 * sum(8 * k * BETA * factor for factor in rounds))
