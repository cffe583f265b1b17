"""Verdicts from shares: properties that hold for every sample, and known answers."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from repro.answers.claims import decides, drawn, residuals
from repro.answers.claims.residuals import Residual, Twins, scaled
from repro.answers.claims.verdict import (
    CONFIRMED,
    CONSISTENT,
    IN_DIRECTION,
    OPEN,
    REFUTED,
    UNJUDGED,
    Effect,
    Interval,
    Sample,
    Share,
    verdict_of,
)
from repro.answers.tables.runs import Runs
from repro.experiment.inputs import quantiles

FASTER = Effect(1.0, 0.05, "above")
RATIOS = st.lists(st.floats(0.1, 10), min_size=2, max_size=64)


def draws(*values):
    return Sample(values, drawn=True)


def share(sample, bound):
    return verdict_of(sample, bound, None).share.hits


# --- properties


@given(RATIOS, st.floats(0.1, 10), st.floats(0.1, 10))
def test_a_bounds_share_is_monotone_in_the_bound(values, one, other):
    low, high = sorted((one, other))
    assert share(draws(*values), low) >= share(draws(*values), high)


@given(st.permutations(range(16)))
def test_permuting_draws_changes_nothing(order):
    values = [0.5 + 0.1 * number for number in range(16)]
    shuffled = draws(*(values[n] for n in order))
    assert verdict_of(draws(*values), 1.5, 2.0, FASTER) == verdict_of(shuffled, 1.5, 2.0, FASTER)


@given(st.floats(0.1, 10), st.floats(0.1, 10))
def test_a_confirmed_size_is_within_the_papers_range_and_a_refuted_direction_outside_the_claims(value, other):
    low, high = sorted((value, other))
    found = verdict_of(draws(*[value] * 64), low, high, FASTER)
    assert found.answer in (CONFIRMED, REFUTED) and (found.answer == CONFIRMED or value <= 1.05)


@given(st.floats(0.1, 10), st.floats(0.1, 10))
def test_a_ratio_is_above_no_effect_where_its_inverse_is_below(none, value):
    above, below = Effect(none, 0.25, "above"), Effect(1 / none, 0.25, "below")
    assume(not math.isclose(value, above.band[1]))
    assert above.holds(value) == below.holds(1 / value)


# --- words


@pytest.mark.parametrize(
    ("hits", "of", "word"),
    [(64, 64, CONFIRMED), (61, 64, CONFIRMED), (60, 64, OPEN), (32, 64, OPEN), (4, 64, OPEN), (3, 64, REFUTED),
     (16, 16, CONFIRMED), (15, 16, OPEN), (0, 16, REFUTED), (20, 20, CONFIRMED), (4, 4, OPEN), (0, 4, OPEN)],
)  # fmt: skip
def test_a_word_is_used_where_the_binomial_interval_of_the_share_supports_it(hits, of, word):
    found = verdict_of(draws(*[2.0] * hits, *[0.0] * (of - hits)), 1.0, None)
    assert found.answer == word and found.share.text == f"{hits} of {of}"


def test_all_seeds_have_to_agree_where_nothing_is_drawn():
    def answer(*values):
        return verdict_of(Sample(values, drawn=False), 1.0, None).answer

    assert [answer(2.0), answer(2.0, 3.0), answer(0.5, 0.6), answer(0.5, 2.0)] == [CONFIRMED, CONFIRMED, REFUTED, OPEN]


SLOWER = Effect(0.0, 0.05, "below", ratio=False)


@pytest.mark.parametrize(("values", "low", "high", "effect", "word"), [
    ([2.5], 2.0, 3.0, FASTER, CONFIRMED), ([1.5], 2.0, 3.0, FASTER, IN_DIRECTION),
    ([4.5], 2.0, 3.0, FASTER, IN_DIRECTION), ([0.5], 2.0, 3.0, FASTER, REFUTED),
    ([1.5, 0.5], 2.0, 3.0, FASTER, OPEN), ([1.5], 1.0, None, FASTER, CONFIRMED), ([1.04], 1.0, None, FASTER, REFUTED),
    ([-0.1], None, 0.0, SLOWER, CONFIRMED), ([-0.04], None, 0.0, SLOWER, REFUTED),
])  # fmt: skip
def test_an_effect_beyond_the_margin_has_a_direction_and_with_two_ends_a_size(values, low, high, effect, word):
    assert verdict_of(draws(*values * (64 // len(values))), low, high, effect).answer == word


def test_what_is_confirmed_on_an_implied_input_is_consistent_with_it_and_what_is_refuted_stays_so():
    good, bad = (verdict_of(draws(*[value] * 64), 1.0, None).implied("26x") for value in (2.0, 0.5))
    assert good.answer == CONSISTENT and good.answer in UNJUDGED and bad.answer == REFUTED


def test_an_interval_holds_nine_in_ten_of_the_draws_or_all_seeds():
    values = [float(n) for n in range(101)]
    assert Interval.of(50.0, draws(*values)) == Interval(5.0, 50.0, 95.0)
    assert Interval.of(50.0, Sample(values, drawn=False)) == Interval(0.0, 50.0, 100.0)
    for best_guess in (5.0, 95.0, 101.0):  # at an end of the draws, or beyond, it stands for none of them
        assert Interval.of(best_guess, draws(*values)) == Interval(5.0, 50.0, 95.0)
    assert Share(1, 2, drawn=False).text == "1 of 2" and math.isnan(Interval.of(math.nan, draws(math.nan)).low)


# --- what the simulation is off by


STEPS = [
    {"run": run, "strategy": strategy, "bytes": size, "simulated_s": 1.0, "observed_s": observed}
    for run, size, strategy, observed in (
        ("small", 1e6, "dsync", 2.0), ("big", 1e9, "dsync", 1.1), ("big", 1e9, "topk", 1.2),
        ("other", 1e9, "gpipe", 1.5))
]  # fmt: skip


def test_the_error_is_of_the_family_at_the_nearest_size_and_shared_by_what_ran_together():
    big = residuals.of(STEPS, {"dsync", "topk"}, 4e8)
    assert big.runs == [[Residual("dsync", 1.1), Residual("topk", 1.2)]]
    assert [big.of_draw(3).of({"strategy": name}) for name in ("dsync", "topk")] == [1.1, 1.2]
    assert big.of_draw(5).of({"strategy": "unknown"}) in (1.1, 1.2)
    assert residuals.of(STEPS, {"dsync"}, 2e6).runs == [[Residual("dsync", 2.0)]]
    assert "other strategies" in residuals.of(STEPS, {"wfbp"}, 1e9).source
    assert residuals.of([], {"dsync"}, 1e9) is None


def test_the_error_is_that_of_emulated_twins_of_the_same_strategies_where_these_are_of_a_nearer_size():
    servers, rings = ({"algorithm": name, "pieces": 4} for name in ("servers", "ring"))
    of = [Residual("wfbp", 1.4, servers, 8), Residual("wfbp", 1.1, servers, 4), Residual("wfbp", 1.0, rings, 8)]
    vgg = Twins(5e8, [*of, Residual("pipe", 1.0)])
    found = residuals.of(STEPS, {"wfbp"}, 4e8, {"vgg": vgg})
    assert found.runs == [vgg.of] and "twins" in found.source
    of_draws = [found.of_draw(n) for n in range(64)]
    eight = [one.of({"strategy": "wfbp", "options": servers, "workers": 16}) for one in of_draws]
    assert all(1 <= factor <= 1.4 for factor in eight) and max(eight) > 1.3 and len(set(eight)) == 64
    assert max(one.of({"strategy": "wfbp", "options": servers, "workers": 4}) for one in of_draws) < 1.1
    assert {one.of({"strategy": "wfbp", "options": rings, "workers": 4}) for one in of_draws} == {1.0}
    assert "twins" not in residuals.of(STEPS, {"topk"}, 4e8, {"vgg": vgg}).source
    assert "twins" not in residuals.of(STEPS, {"dsync"}, 1e6, {"dsync": Twins(1e9, [Residual("dsync", 2.0)])}).source


def test_twins_are_of_the_same_experiment_and_what_it_trains():
    def run(seconds, **more):
        return {"experiment": "a", "model": {"name": "vgg", "parameters": 10}, "workers": 8, "strategy": "wfbp",
                "options": {"pieces": 4}, "step": {"median_s": seconds}, "seed": 0} | more  # fmt: skip

    simulated = Runs({0: run(1.0), 1: run(5.0, workers=4)}, pd.DataFrame())
    emulated = Runs({0: run(1.2), 1: run(1.4, seed=1), 2: run(9.0, options={})}, pd.DataFrame())
    found = residuals.twins([(emulated, simulated), (emulated, simulated), (None, simulated)])
    assert found == {"a vgg": Twins(40.0, [Residual("wfbp", pytest.approx(1.3), {"pieces": 4}, 8)])}


def test_an_error_makes_times_longer_rates_smaller_and_nothing_else():
    result = {"step": {"mean_s": 2.0}, "phases": {"wait": 1.0}, "iterations": 5, "rows": [{"iterations_per_s": 4.0}],
              "counters": {"late": 3.0}, "final": {"top1": 0.5, "train_s": 10.0}}  # fmt: skip
    assert scaled(result, 2.0) == {"step": {"mean_s": 4.0}, "phases": {"wait": 2.0}, "iterations": 5,
                                   "rows": [{"iterations_per_s": 2.0}], "counters": {"late": 3.0},
                                   "final": {"top1": 0.5, "train_s": 20.0}}  # fmt: skip


def test_a_simulation_is_a_part_of_the_way_to_its_emulated_twin_in_each_draw():
    moved = drawn.towards(dict.fromkeys(range(64), 2.0), [2.0, 0.5])
    assert all(2.0 <= moved[n] <= 4.0 if n % 2 == 0 else 1.0 <= moved[n] <= 2.0 for n in moved)
    assert len(set(moved.values())) == 64
    assert drawn.towards({1: 2.0}, [2.0, 0.5])[1] == moved[1]  # more draws extend the fewer


# --- what decides


def test_the_input_that_decides_is_named_and_none_where_two_do():
    a, b = (list(quantiles(name, 64)) for name in ("alpha", "beta"))
    assert decides.deciding_input(a, {"alpha": a, "beta": b}) == "alpha"
    assert decides.deciding_input([x + y for x, y in zip(a, b, strict=True)], {"alpha": a, "beta": b}) == decides.NONE
    assert decides.deciding_input([1.0] * 64, {"alpha": a}) == "" and decides.deciding_input(a, {}) == ""
    assert decides.deciding_input([-x for x in a], {"alpha": a, "same": [1.0] * 64}) == "alpha"
