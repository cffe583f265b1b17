"""Verdicts from shares: properties that hold for every sample, and known answers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from repro.answers.claims import decides, drawn, residuals
from repro.answers.claims.residuals import Residual, Twins
from repro.answers.claims.verdict import (
    CONSISTENT,
    GIVEN,
    HEADINGS,
    LARGER,
    NOT_JUDGED,
    NOT_REPRODUCED,
    OPEN,
    REPRODUCED,
    SAME_DIRECTION,
    SMALLER,
    UNJUDGED,
    AtBaseline,
    Effect,
    Interval,
    Sample,
    Share,
    Verdict,
    question_left,
    verdict_of,
)
from repro.answers.tables.runs import Runs
from repro.experiment.inputs import draw_quantiles
from repro.records.units import scale_times
from tests.reports.data.summaries import make
from tests.support.records import found_of

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


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10))
def test_a_word_says_on_which_side_of_the_papers_range_a_sure_number_lies(value, low, high):
    low, high = sorted((low, high))
    assume(not FASTER.implies(low, high))
    expected = SMALLER if value < low else LARGER if value > high else REPRODUCED
    found = verdict_of(draws(*[value] * 64), low, high, FASTER)
    assert found.answer == (expected if value > 1.05 else NOT_REPRODUCED)


@given(st.floats(0.1, 10), st.floats(0.1, 10))
def test_a_ratio_is_above_no_effect_where_its_inverse_is_below(none, value):
    above, below = Effect(none, 0.25, "above"), Effect(1 / none, 0.25, "below")
    assume(not math.isclose(value, above.band[1]))
    assert above.holds(value) == below.holds(1 / value)


# --- words


@pytest.mark.parametrize(
    ("hits", "of", "word"),
    [(64, 64, REPRODUCED), (61, 64, REPRODUCED), (60, 64, OPEN), (32, 64, OPEN), (4, 64, OPEN), (3, 64, NOT_REPRODUCED),
     (16, 16, REPRODUCED), (15, 16, OPEN), (0, 16, NOT_REPRODUCED), (20, 20, REPRODUCED), (4, 4, OPEN), (0, 4, OPEN)],
)  # fmt: skip
def test_a_word_is_used_where_the_binomial_interval_of_the_share_supports_it(hits, of, word):
    found = verdict_of(draws(*[2.0] * hits, *[0.0] * (of - hits)), 1.0, None)
    assert found.answer == word and found.share.text == f"{hits} of {of}"


def test_all_seeds_have_to_agree_where_nothing_is_drawn():
    def answer(*values):
        return verdict_of(Sample(values, drawn=False), 1.0, None).answer

    assert [answer(2.0), answer(2.0, 3.0), answer(0.5, 0.6), answer(0.5, 2.0)] == [
        REPRODUCED,
        REPRODUCED,
        NOT_REPRODUCED,
        OPEN,
    ]


SLOWER = Effect(0.0, 0.05, "below", ratio=False)


@pytest.mark.parametrize(("values", "low", "high", "effect", "word"), [
    ([2.5], 2.0, 3.0, FASTER, REPRODUCED), ([1.5], 2.0, 3.0, FASTER, SMALLER), ([4.5], 2.0, 3.0, FASTER, LARGER),
    ([0.5], 2.0, 3.0, FASTER, NOT_REPRODUCED), ([1.5, 0.5], 2.0, 3.0, FASTER, OPEN),
    ([1.5, 2.5], 2.0, 3.0, FASTER, SAME_DIRECTION), ([1.5, 4.5], 2.0, 3.0, FASTER, SAME_DIRECTION),
    ([1.19], 2.7, None, FASTER, SMALLER), ([3.0], 2.7, None, FASTER, REPRODUCED),
    ([1.0], 2.7, None, FASTER, NOT_REPRODUCED),
    ([1.5], 1.0, None, FASTER, REPRODUCED), ([1.04], 1.0, None, FASTER, NOT_REPRODUCED),
    ([1.04], 1.0, 1.2, FASTER, NOT_REPRODUCED),
    ([-0.1], None, 0.0, SLOWER, REPRODUCED), ([-0.04], None, 0.0, SLOWER, NOT_REPRODUCED),
    ([-0.1], None, -0.2, SLOWER, LARGER),
])  # fmt: skip
def test_an_effect_beyond_the_margin_has_a_direction_and_a_size_unless_the_direction_implies_it(
    values, low, high, effect, word
):
    assert verdict_of(draws(*values * (64 // len(values))), low, high, effect).answer == word


def test_what_agrees_on_an_implied_input_is_consistent_with_it_and_what_disagrees_stays_so():
    good, bad = (verdict_of(draws(*[value] * 64), 1.0, None).implied("26x") for value in (2.0, 0.5))
    assert good.answer == CONSISTENT and good.answer in UNJUDGED and bad.answer == NOT_REPRODUCED


def test_a_word_says_by_how_much_ours_is_off_and_whether_the_baseline_is_the_papers():
    size = Share(0, 64, drawn=True)
    off = Verdict(SMALLER, Share(64, 64, drawn=True), size, factor=1.19 / 2.7)
    assert off.text == "smaller: 0.44 of the paper's (size in 0 of 64 draws)"
    assert replace(off, of_bound=True).words == "smaller: 0.44 of the bound"  # in words the paper has no number
    turned = replace(Verdict(OPEN, size, turns_at="below 1 ms (alpha)"), size=size)
    assert turned.text == "open (effect in 0 of 64 draws); the effect holds below 1 ms (alpha)"
    assert "it holds below" in replace(turned, size=None).text
    at = {name: AtBaseline(11.3, reproduced) for name, reproduced in (("same", True), ("another", False))}
    larger = Verdict(LARGER, size, factor=2.7, baseline=at["same"])
    assert larger.text == "larger: 2.7 times the paper's (0 of 64 draws)"
    assert Verdict(OPEN, baseline=at["another"]).label == "open, our baseline 11 times the paper's"
    for word in {*HEADINGS} - {NOT_JUDGED, *GIVEN}:  # agreement and disagreement alike
        assert Verdict(word, baseline=at["another"]).words == f"{word}, at another baseline (11 times the paper's)"
    assert "baseline" not in Verdict(CONSISTENT, baseline=at["another"]).words


def test_an_interval_holds_nine_in_ten_of_the_draws_or_all_seeds():
    values = [float(n) for n in range(101)]
    assert Interval.of(50.0, draws(*values)) == Interval(5.0, 50.0, 95.0)
    assert Interval.of(50.0, Sample(values, drawn=False)) == Interval(0.0, 50.0, 100.0)
    for best_guess in (4.0, 101.0):  # beyond an end of the draws it stands for none of them
        assert Interval.of(best_guess, draws(*values)) == Interval(5.0, 50.0, 95.0, median=True)
    assert Interval.of(5.0, draws(*values)) == Interval(5.0, 5.0, 95.0)
    shares = [0.0] * 8 + [0.25] * 4 + [1.0] * 4  # of four networks: no draw has the mean of the middle two
    assert Interval.of(0.0, draws(*shares)) == Interval(0.0, 0.0, 1.0)
    assert Share(1, 2, drawn=False).text == "1 of 2" and math.isnan(Interval.of(math.nan, draws(math.nan)).low)


# --- what the simulation is off by


STEPS = [
    {"run": run, "strategy": strategy, "bytes": size, "simulated_s": 1.0, "observed_s": observed}
    for run, size, strategy, observed in (
        ("small", 1e6, "dsync", 2.0), ("big", 1e9, "dsync", 1.1), ("big", 1e9, "topk", 1.2),
        ("other", 1e9, "gpipe", 1.5))
]  # fmt: skip


def test_the_error_is_of_the_family_at_the_nearest_size_and_shared_by_what_ran_together():
    big = residuals.residuals_for(STEPS, {"dsync", "topk"}, 4e8)
    assert big.runs == [[Residual("dsync", 1.1), Residual("topk", 1.2)]]
    assert [big.of_draw(3).factor_of(name) for name in ("dsync", "topk")] == [1.1, 1.2]
    assert big.of_draw(5).factor_of("unknown") in (1.1, 1.2)
    assert residuals.residuals_for(STEPS, {"dsync"}, 2e6).runs == [[Residual("dsync", 2.0)]]
    assert "other strategies" in residuals.residuals_for(STEPS, {"wfbp"}, 1e9).source
    assert residuals.residuals_for([], {"dsync"}, 1e9) is None


def test_the_error_is_that_of_emulated_twins_of_the_same_strategies_where_these_are_of_a_nearer_size():
    servers, rings = ({"algorithm": name, "pieces": 4} for name in ("servers", "ring"))
    of = [Residual("wfbp", 1.4, servers, 8), Residual("wfbp", 1.1, servers, 4), Residual("wfbp", 1.0, rings, 8)]
    vgg = Twins(5e8, [*of, Residual("pipe", 1.0)])
    found = residuals.residuals_for(STEPS, {"wfbp"}, 4e8, {"vgg": vgg})
    assert found.runs == [vgg.residuals] and "emulated" in found.source
    of_draws = [found.of_draw(n) for n in range(64)]
    eight = [one.factor_of("wfbp", servers, 16) for one in of_draws]
    assert all(1 <= factor <= 1.4 for factor in eight) and max(eight) > 1.3 and len(set(eight)) == 64
    assert max(one.factor_of("wfbp", servers, 4) for one in of_draws) < 1.1
    assert {one.factor_of("wfbp", rings, 4) for one in of_draws} == {1.0}
    assert "emulated" not in residuals.residuals_for(STEPS, {"topk"}, 4e8, {"vgg": vgg}).source
    assert (
        "emulated"
        not in residuals.residuals_for(STEPS, {"dsync"}, 1e6, {"dsync": Twins(1e9, [Residual("dsync", 2.0)])}).source
    )


def test_twins_are_of_the_same_experiment_and_what_it_trains():
    def run(seconds, workers=8, **strategy):
        config = {"strategy": {"name": "wfbp"} | strategy}
        summary = make("D-Sync", workers=workers, model={"name": "vgg", "parameters": 10}, step={"median_s": seconds})
        return found_of(summary | {"experiment": "a"}, config)

    simulated = Runs({0: run(1.0, pieces=4), 1: run(5.0, workers=4, pieces=4)}, {})
    older = run(1.4)  # of before that option, at whose default it counts
    emulated = Runs({0: run(1.2, pieces=4), 1: older, 2: run(9.0, pieces=8)}, {})
    found = residuals.twins_of_pairs([(emulated, simulated), (emulated, simulated), (None, simulated)])
    assert found == {"a vgg": Twins(40.0, [Residual("wfbp", pytest.approx(1.3), {"pieces": 4}, 8)])}


def test_an_error_makes_times_longer_rates_smaller_and_nothing_else():
    rows = [{"iterations_per_s": 4.0, "seconds": {"median": 3.0}}]
    result = {"step": {"mean_s": 2.0}, "phases": {"wait": 1.0}, "iterations": 5, "rows": rows,
              "counters": {"late": 3.0}, "final": {"top1": 0.5, "train_s": 10.0}}  # fmt: skip
    assert scale_times(result, 2.0) == {"step": {"mean_s": 4.0}, "phases": {"wait": 2.0}, "iterations": 5,
                                   "rows": [{"iterations_per_s": 2.0, "seconds": {"median": 6.0}}],
                                   "counters": {"late": 3.0},
                                   "final": {"top1": 0.5, "train_s": 20.0}}  # fmt: skip


def test_a_simulation_is_a_part_of_the_way_to_its_emulated_twin_in_each_draw():
    moved = drawn.towards(dict.fromkeys(range(64), 2.0), [2.0, 0.5])
    assert all(2.0 <= moved[n] <= 4.0 if n % 2 == 0 else 1.0 <= moved[n] <= 2.0 for n in moved)
    assert len(set(moved.values())) == 64
    assert drawn.towards({1: 2.0}, [2.0, 0.5])[1] == moved[1]  # more draws extend the fewer


# --- what decides


def test_the_input_that_decides_is_named_and_none_where_two_do():
    a, b = (list(draw_quantiles(name, 64)) for name in ("alpha", "beta"))
    assert decides.deciding_input(a, {"alpha": a, "beta": b}) == "alpha"
    assert decides.deciding_input([x + y for x, y in zip(a, b, strict=True)], {"alpha": a, "beta": b}) == decides.NONE
    assert decides.deciding_input([1.0] * 64, {"alpha": a}) == "" and decides.deciding_input(a, {}) == ""
    assert decides.deciding_input([-x for x in a], {"alpha": a, "same": [1.0] * 64}) == "alpha"


def test_an_answer_turns_at_the_value_of_the_input_that_separates_its_draws():
    a, b = (list(draw_quantiles(name, 64)) for name in ("alpha", "beta"))
    betas = [1e-9 * (1 + x) for x in b]
    inputs = {"alpha": ("testbed.alpha_s", a), "beta": ("testbed.beta_s_per_byte", betas)}
    assert decides.turning_value([x < 1.5e-9 for x in betas], inputs) == "below 1.5 ns a byte (beta)"
    noisy = [(x > 0.5) != (n in (3, 40)) for n, x in enumerate(a)]
    assert decides.turning_value(noisy, inputs) == "above 500 ms (alpha)"
    wires = {"wire": ("strategy.wire", ["float32", "float16"] * 32)}
    assert decides.turning_value([n % 2 == 1 for n in range(64)], wires) == "at float16 (wire)"
    rates = {"utilisation": ("testbed.device.peak_flops", [1e10 * (1 + x) for x in a])}
    assert decides.turning_value([x > 0.5 for x in a], rates) == "above 15 GFLOP/s (utilisation)"
    some = {"merge": ("testbed.merge_s_per_byte", [None, 1e-9] * 32)}  # None is no value where an answer may hold
    assert decides.turning_value([n % 2 == 0 for n in range(64)], some) == ""
    assert decides.turning_value([n % 2 == 1 for n in range(64)], some) == "at 1e-09 (merge)"
    assert decides.turning_value([x + y < 1 for x, y in zip(a, b, strict=True)], inputs) == ""  # both matter
    assert decides.turning_value([x == max(a) for x in a], inputs) == ""  # by chance


def test_what_is_undecided_is_the_effect_and_only_then_its_size():
    assert question_left(draws(*[2.5, 0.9] * 32), 2.0, 3.0, FASTER)(1.5)
    assert not question_left(draws(*[2.5, 1.5] * 32), 2.0, 3.0, FASTER)(1.5)
    assert question_left(draws(*[2.5] * 64), 2.0, 3.0, FASTER) is None
