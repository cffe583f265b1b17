"""Recursive doubling over any number of ranks takes the time that is printed, on links that share too."""

from __future__ import annotations

import pytest
import torch

from repro.fabric import collectives
from repro.fabric.virtual import Network, run
from repro.timing import closed_forms as forms
from repro.timing.costs import Costs

BETA, ROUNDING = 1e-9, 1e-9
ALPHAS, GAMMAS, SIZES = (1e-6, 2e-3), (0.0, 3e-10, 3e-9), (4, 400_000)


def seconds(p: int, n: int, network: Network, gamma: float = 0.0) -> float:
    def main(fabric) -> float:
        collectives.recursive_doubling_allreduce(fabric, torch.empty(n // 4, device="meta"))
        return fabric.now()

    return max(run(p, main, network, Costs(True, {"reduce": gamma}, {"sync": 0.0})))


def textbook(p: int, n: int, alpha: float, gamma: float) -> float:
    """A round in, one for each doubling, one out."""
    rounds, message = p.bit_length() - 1, alpha + n * BETA
    return rounds * (message + n * gamma) + (0.0 if p == 1 << rounds else 2 * message + n * gamma)


@pytest.mark.parametrize("p", range(2, 34))
def test_the_time_is_the_printed_one(p: int) -> None:
    """To rounding the closed form, which is the textbook's sum of rounds, or less where summing takes time."""
    for n, alpha, gamma in ((n, alpha, gamma) for n in SIZES for alpha in ALPHAS for gamma in GAMMAS):
        form = forms.recursive_doubling(p, n, alpha, BETA, gamma)
        assert seconds(p, n, Network(alpha, BETA), gamma) == pytest.approx(form, rel=ROUNDING), (n, alpha, gamma)
        bound = textbook(p, n, alpha, gamma)
        assert form <= bound * (1 + ROUNDING)
        if gamma == 0.0 or p & (p - 1) == 0:
            assert form == pytest.approx(bound, rel=ROUNDING)


@pytest.mark.parametrize("p", range(2, 34))
def test_no_two_messages_share_a_link(p: int) -> None:
    """So that links on which they would hold each other up change nothing; a sum's time is at most what may be lost."""
    n = 400_000
    for alpha in (1e-4, 2e-3):
        fair = Network(alpha, BETA, quantum=16_384)
        assert seconds(p, n, fair) == pytest.approx(textbook(p, n, alpha, 0.0), rel=ROUNDING)
        for gamma in GAMMAS[1:]:
            assert seconds(p, n, fair, gamma) <= (textbook(p, n, alpha, gamma) + n * gamma) * (1 + ROUNDING)


@pytest.mark.parametrize("p", [3, 5, 6, 7, 11, 13, 15, 21, 31])
def test_the_sums_are_right_and_the_same_everywhere(p: int) -> None:
    noise = torch.randn(p, 33, generator=torch.Generator().manual_seed(1))

    def main(fabric):
        found = []
        for late in range(3):  # several in a row, ranks being late in turn
            fabric.sleep(1e-3 * ((fabric.rank * 5 + late * 3) % 7))
            vector = noise[fabric.rank].clone()
            collectives.recursive_doubling_allreduce(fabric, vector)
            found.append(vector)
        return found

    found = run(p, main, Network(1e-4, BETA))
    for vector in (vector for each in found for vector in each):
        assert torch.equal(vector, found[0][0])
    torch.testing.assert_close(found[0][0], noise.sum(0))
