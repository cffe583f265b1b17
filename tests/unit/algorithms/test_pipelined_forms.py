"""The pipelined ring's closed forms against the virtual fabric, and against each other."""

from __future__ import annotations

import random
from functools import partial
from itertools import product

import pytest
import torch

from repro.algorithms.timing import collective_forms
from repro.algorithms.timing.collective_forms import _pipeline
from repro.core.errors import InputError
from repro.fabric.codecs import make_codec
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.compressed import CompressedAllreduce
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from tests.support import forms
from tests.support.stepping import CODEC_COSTS, timed_call

ROUNDING = 1e-11
BETA = 1e-9
RANKS = [2, 3, 6]


def simulate(ranks: int, elements: int, network: virtual.Network, costs: Costs, pieces: int, device="meta") -> float:
    return timed_call(partial(collectives.ring_pipelined, pieces=pieces), ranks, elements, network, costs, device)


def reducing(gamma: float, sync: float = 0.0) -> Costs:
    return Costs(True, {"reduce": gamma}, {"sync": sync})


@pytest.mark.parametrize("p", RANKS)
@pytest.mark.parametrize("m", [1, 2, 7])
def test_equal_pieces(p: int, m: int) -> None:
    """alpha none, about a piece, large; reducing free, as fast as the wire, slower, much slower."""
    piece = 25
    c = 4 * piece * BETA
    for alpha, ratio in product((0.0, 1.3 * c, 50 * c), (0.0, 1.0, 1.1, 2.5, 20.0)):
        costs, network = reducing(ratio * BETA, 3e-6), virtual.Network(alpha, BETA)
        n = 4 * piece * p * m
        found = simulate(p, n // 4, network, costs, m)
        form = 3e-6 + forms.ring_pipelined_even(p, alpha, c, ratio * c, m)
        assert found == pytest.approx(form, rel=ROUNDING), (alpha / c, ratio)
        assert collective_forms.ring_pipelined(p, n, alpha, BETA, ratio * BETA, 3e-6, m) == pytest.approx(
            form, rel=ROUNDING
        )
        assert forms.piece_stages(p, n, BETA, costs, make_codec("none"), m) == pytest.approx((c, ratio * c, m))


@pytest.mark.parametrize("p", [1, *RANKS])
@pytest.mark.parametrize("elements", [1, 5, 13, 1001])
def test_any_length(p: int, elements: int) -> None:
    """Pieces that differ by an element, empty ones, fewer elements than ranks: exact by recursion, bounded in closed
    form with the largest piece."""
    for pieces, alpha, gamma in product((1, 3, 9), (0.0, 1e-4), (0.0, 4e-10, 3e-9)):
        network, costs = virtual.Network(alpha, BETA), reducing(gamma)
        found = simulate(p, elements, network, costs, pieces)
        exact = collective_forms.ring_pipelined(p, 4 * elements, alpha, BETA, gamma, pieces=pieces)
        assert found == pytest.approx(exact, rel=ROUNDING), (pieces, alpha, gamma)
        wire, work, m = forms.piece_stages(p, 4 * elements, BETA, costs, make_codec("none"), pieces)
        assert exact <= forms.ring_pipelined_even(p, alpha, wire, work, m) * (1 + ROUNDING)
        if elements < 20 and gamma:
            assert simulate(p, elements, network, costs, pieces, "cpu") == found


@pytest.mark.parametrize("name", ["none", "quantize8", "ternary"])
@pytest.mark.parametrize("p", [1, *RANKS])
def test_with_a_codec(name: str, p: int) -> None:
    for elements, pieces, alpha in product((1, 1001, 2400), (1, 4, 5), (1e-7, 1e-4)):
        n, network = 4 * elements, virtual.Network(alpha, BETA)

        def main(fabric: virtual.VirtualFabric, elements: int = elements, pieces: int = pieces) -> float:
            allreduce = CompressedAllreduce(fabric, elements, name, "ring_pipelined", pieces=pieces)
            gradient = torch.ones(elements, device="meta")
            allreduce.decompress(allreduce.reduce(allreduce.compress(gradient)), gradient)
            return fabric.now()

        compress, decompress = collective_forms.codec_device(n, CODEC_COSTS, make_codec(name))
        known = (p, n, alpha, BETA, CODEC_COSTS, make_codec(name))
        ring = collective_forms.ring_pipelined_encoded(*known, pieces)
        found = max(virtual.run(p, main, network, CODEC_COSTS))
        assert found == pytest.approx(compress + ring + decompress, rel=ROUNDING)
        if pieces == 1 and p > 1:
            assert ring == pytest.approx(collective_forms.ring_encoded(*known), rel=ROUNDING)
        if elements % (p * pieces) == 0:
            stages = forms.piece_stages(p, n, BETA, CODEC_COSTS, make_codec(name), pieces)
            even = CODEC_COSTS.seconds("sync") + forms.ring_pipelined_even(p, alpha, *stages)
            assert ring == pytest.approx(even, rel=ROUNDING)


def test_the_closed_form_is_the_recursion() -> None:
    """In whole numbers, so that it is exact: all regimes and transitions."""
    draw = random.Random(1)
    for _ in range(400):
        p, m, c = draw.randint(2, 9), draw.randint(1, 9), draw.randint(1, 12)
        r = draw.choice([0, draw.randint(0, 40), c, c + 1])
        alpha = draw.choice([0, draw.randint(0, 20), draw.randint(0, 200)])
        in_place = draw.random() < 0.5
        exact = _pipeline(p, 4 * p * m, alpha, lambda length, c=c: c, lambda block, r=r: r, m, in_place)
        assert exact == forms.ring_pipelined_even(p, alpha, c, r, m), (p, m, c, r, alpha)


def test_regimes() -> None:
    draw, seen = random.Random(2), {"network": 0, "reduction": 0, "latency": 0}
    for _ in range(1500):
        p, m, c = draw.randint(2, 9), draw.randint(1, 9), draw.randint(1, 12)
        r, alpha = draw.choice([0, draw.randint(0, 60)]), draw.choice([0, draw.randint(0, 200)])
        found = forms.ring_pipelined_even(p, alpha, c, r, m)
        if r <= c and alpha + c + r <= m * c:
            seen["network"] += 1
            assert found == 2 * (p - 1) * m * c + alpha
        if r >= 2 * c and alpha + c + r <= m * r and alpha + c <= m * c:
            seen["reduction"] += 1
            assert found == (p - 1) * m * (c + r) + 2 * alpha - (m - 2) * c
        if alpha + c >= m * c and alpha + c + r >= m * max(c, r):
            seen["latency"] += 1
            assert found == 2 * (p - 1) * (alpha + c) + (p - 1) * r + (m - 1) * max(c, r)
        assert found >= 2 * (p - 1) * m * c + alpha  # never faster than the network
        assert found >= (p - 1) * m * r  # nor than the reductions
        assert found <= 2 * (p - 1) * (alpha + m * c) + (p - 1) * m * r  # nor slower than the ring
    assert min(seen.values()) > 30


def test_pieces_are_at_least_one() -> None:
    with pytest.raises(InputError, match="pieces 0"):
        virtual.run(1, lambda f: CompressedAllreduce(f, 4, "none", "ring_pipelined", pieces=0), virtual.Network(0, 0))
