"""The trees' rounds on links that share: a broadcast's closed form holds there too, to rounding."""

from __future__ import annotations

import pytest
import torch

from repro.fabric import collectives
from repro.fabric.selection import select
from repro.fabric.sparse import Wire
from repro.fabric.sparse_collectives import gtopk_allreduce
from repro.fabric.virtual import Network, run
from repro.timing import closed_forms as forms
from repro.timing.costs import Costs

ALPHA, BETA, N = 1e-4, 1e-9, 400_000
FAIR = Network(ALPHA, BETA, quantum=16_384)
ROUNDING = 1e-9  # relative: a message is some 25 quanta, each of its own additions


def seconds(call, p: int, network: Network, gamma: float = 0.0) -> float:
    def main(fabric) -> float:
        call(fabric, torch.empty(N // 4, device="meta"))
        return fabric.now()

    return max(run(p, main, network, Costs(True, {"reduce": gamma, "merge": gamma}, {"sync": 0.0})))


def gtopk(fabric, vector: torch.Tensor) -> None:
    """Messages of N bytes: an eighth as many elements of a value and an index."""
    gtopk_allreduce(fabric, select(vector, N // 8), Wire(N // 8))


@pytest.mark.parametrize("p", range(2, 34))
def test_a_broadcast_takes_its_rounds_where_links_share(p: int) -> None:
    """ceil(log2 p) (alpha + n beta): all of it for a power of two, its n beta for any p, and never more."""
    found, rounds = seconds(collectives.binomial_broadcast, p, FAIR), forms.rounds(p)
    assert found == pytest.approx(forms.broadcast(p, N, ALPHA, BETA), rel=ROUNDING)
    assert found <= rounds * (ALPHA + N * BETA) * (1 + ROUNDING)
    if p & (p - 1) == 0:
        assert found == pytest.approx(rounds * (ALPHA + N * BETA), rel=ROUNDING)
    no_latency = Network(0.0, BETA, quantum=FAIR.quantum)
    assert seconds(collectives.binomial_broadcast, p, no_latency) == pytest.approx(rounds * N * BETA, rel=ROUNDING)


@pytest.mark.parametrize("gamma", [0.0, 3e-10, 3e-9])
@pytest.mark.parametrize("p", [2, 3, 4, 6, 7, 8, 11, 16, 23, 32])
def test_trees_stay_within_their_rounds_where_links_share(p: int, gamma: float) -> None:
    """Exactly the form's for a power of two; for other p two children's messages may come in together."""
    exchange = ALPHA + N * (BETA + gamma)
    reduce = forms.rounds(p) * exchange
    broadcast = forms.rounds(p) * (ALPHA + N * BETA)
    found = seconds(collectives.binomial_reduce, p, FAIR, gamma), seconds(collectives.tree_allreduce, p, FAIR, gamma)
    assert found[0] <= reduce * (1 + ROUNDING) and found[1] <= (reduce + broadcast) * (1 + ROUNDING)
    if p & (p - 1) == 0:
        assert found == (pytest.approx(reduce, rel=ROUNDING), pytest.approx(reduce + broadcast, rel=ROUNDING))
    merged = reduce + forms.rounds(p) * N * gamma + broadcast  # a merge reads both messages
    assert seconds(gtopk, p, FAIR, gamma) <= merged * (1 + ROUNDING)
