"""Non-inferiority from paired seeds: known answers, and what must not change an answer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from repro.answers.claims.paired import LOSS, NO_LOSS, OPEN, compare

SEEDS = range(20)


def made_up(seed: int, pairs: int = 5) -> list[float]:
    """Differences of accuracy, a seed each."""
    return np.random.default_rng(seed).normal(0, 0.001, pairs).tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_swapping_the_sides_mirrors_the_interval(seed):
    gains = made_up(seed)
    there, back = compare(gains, 0.001), compare([-gain for gain in gains], 0.001)
    assert (back.mean, back.low, back.high) == pytest.approx((-there.mean, -there.high, -there.low))


@pytest.mark.parametrize("seed", SEEDS)
def test_more_seeds_of_the_same_spread_narrow_it(seed):
    found = [compare(made_up(seed) * times, 0.001) for times in (1, 2, 4)]
    assert found[0].mean == pytest.approx(found[2].mean)
    for wider, narrower in itertools.pairwise(found):
        assert wider.low < narrower.low < narrower.high < wider.high


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wider_margin_never_makes_a_loss_of_no_loss(seed):
    answers = [compare(made_up(seed), margin).answer for margin in np.linspace(0, 0.005, 50)]
    first = answers.index(NO_LOSS)
    assert set(answers[first:]) == {NO_LOSS} and NO_LOSS not in answers[:first]


@pytest.mark.parametrize(
    "gains, margin, answer",
    [
        ([0.001, 0.0, -0.001, 0.0005, -0.0005], 0.003, NO_LOSS),
        ([0.01, 0.011, 0.012], 0.0, NO_LOSS),  # better
        ([-0.010, -0.011, -0.012], 0.003, LOSS),
        ([-0.0010, -0.0011, -0.0012], 0.003, NO_LOSS),  # a loss, but within the margin
        ([-0.0008, -0.0014, -0.002, -0.0026, -0.0032], 0.0025, OPEN),  # a loss, perhaps within the margin
        ([-0.02, 0.02, -0.01], 0.003, OPEN),
        ([-0.01, -0.01], 0.003, LOSS),  # no spread at all
        ([-0.01], 0.003, OPEN),
        ([], 0.003, OPEN),
        ([-math.inf, 0.0, 0.0], 0.003, OPEN),
        ([math.nan, 0.0, 0.0], 0.003, OPEN),
    ],
)
def test_answers(gains, margin, answer):
    found = compare(gains, margin)
    assert found.answer == answer and found.pairs == len(gains)


def test_known_interval():
    found = compare([1.0, 2.0, 3.0, 4.0, 5.0], 0.5)  # t(0.95, 4) = 2.1318, standard error 0.70711
    assert (found.mean, found.low, found.high) == pytest.approx((3.0, 1.4926, 4.5074), abs=1e-4)
