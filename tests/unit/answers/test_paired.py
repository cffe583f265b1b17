"""Non-inferiority from paired seeds: known answers, and what must not change an answer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from repro.answers.claims.paired import LOSS, NO_LOSS, OPEN, compare, differences, noncentrality, test_set_margin

test_set_margin.__test__ = False  # a function of ours, not a test

SEEDS = range(20)


def made_up(seed: int, pairs: int = 5) -> tuple[dict[int, float], dict[int, float]]:
    """Accuracies of two variants over as many seeds."""
    draw = np.random.default_rng(seed)
    common = draw.normal(0.98, 0.001, pairs)
    return tuple(dict(enumerate(common + draw.normal(0, 0.0007, pairs))) for _ in "ab")


@pytest.mark.parametrize("seed", SEEDS)
def test_shifting_both_sides_changes_nothing(seed):
    ours, baseline = made_up(seed)
    moved = [{seed: value + 0.3 for seed, value in side.items()} for side in (ours, baseline)]
    before, after = (compare(differences(*sides).values(), 0.001) for sides in ((ours, baseline), moved))
    assert after.answer == before.answer
    for name in ("mean", "low", "high", "resolved"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_swapping_the_sides_mirrors_the_interval(seed):
    ours, baseline = made_up(seed)
    there, back = (compare(differences(*sides).values(), 0.001) for sides in ((ours, baseline), (baseline, ours)))
    assert (back.mean, back.low, back.high) == pytest.approx((-there.mean, -there.high, -there.low))
    assert back.resolved == pytest.approx(there.resolved)
    lower = compare(differences(baseline, ours, lower_is_better=True).values(), 0.001)
    assert (lower.low, lower.high) == pytest.approx((there.low, there.high))


@pytest.mark.parametrize("seed", SEEDS)
def test_more_seeds_of_the_same_spread_narrow_it(seed):
    gains = list(differences(*made_up(seed)).values())
    found = [compare(gains * times, 0.001) for times in (1, 2, 4)]
    assert found[0].mean == pytest.approx(found[2].mean)
    for wider, narrower in itertools.pairwise(found):
        assert wider.low < narrower.low < narrower.high < wider.high and narrower.resolved < wider.resolved


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wider_margin_never_makes_a_loss_of_no_loss(seed):
    gains = list(differences(*made_up(seed)).values())
    answers = [compare(gains, margin).answer for margin in np.linspace(0, 0.005, 50)]
    first = answers.index(NO_LOSS)
    assert set(answers[first:]) == {NO_LOSS} and NO_LOSS not in answers[:first]


@pytest.mark.parametrize(
    "gains, margin, answer",
    [
        ([0.001, 0.0, -0.001, 0.0005, -0.0005], 0.003, NO_LOSS),
        ([0.01, 0.011, 0.012], 0.0, NO_LOSS),  # better
        ([-0.010, -0.011, -0.012], 0.003, LOSS),
        ([-0.0010, -0.0011, -0.0012], 0.003, NO_LOSS),  # a loss, but within the margin
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


def test_only_seeds_of_both_sides_are_paired():
    assert differences({0: 1.0, 1: 2.0, 7: 9.0}, {1: 1.5, 0: 1.0, 3: 4.0}) == {0: 0.0, 1: 0.5}


def test_a_true_difference_of_the_resolved_size_is_seen_with_power_0_8():
    pairs, draw = 5, np.random.default_rng(0)
    true = noncentrality(pairs) / math.sqrt(pairs)
    seen = np.mean([compare(draw.normal(true, 1, pairs), 0).low > 0 for _ in range(4000)])
    assert seen == pytest.approx(0.8, abs=0.03)


def test_more_examples_resolve_less():
    assert test_set_margin(0.9833, 10_000) == pytest.approx(0.0045, abs=5e-5)
    assert test_set_margin(0.9833, 40_000) == pytest.approx(test_set_margin(0.9833, 10_000) / 2)
