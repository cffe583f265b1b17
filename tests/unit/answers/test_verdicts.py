"""Claims as data, computed from runs by their verbs, and verdicts from intervals."""

from __future__ import annotations

import math
from datetime import date

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from repro.answers.claims import claims, evaluate
from repro.answers.claims.evaluate import Error, Evidence, Outcome, judge
from repro.answers.claims.validated import ratio_error, time_error
from repro.answers.claims.verdict import Effect, Interval, Verdict, direction, of_effect, of_value
from repro.core.errors import InputError

# --- claims as data: read, computed from runs by their verbs, judged with all that makes a number uncertain


CLAIM = {
    "id": "faster", "about": "time", "text": "A is 2 to 3 times as fast", "source": "Table 1", "experiment": "fig1",
    "value": {"verb": "speedup", "column": "step_s", "of": {"variant": ["A", "A + T"]}, "over": {"variant": "B"}},
    "paper": {"low": 2.0, "high": 3.0, "shown": "2-3x", "unit": "x"}, "tolerance": {"relative": 0.1},
    "effect": {"none": 1.0, "side": "above"},
}  # fmt: skip
FILE = {"fixed": date(2026, 11, 20), "margins": {"fixed": date(2026, 11, 23)}}


def read(tmp_path, *entries, **more):
    path = tmp_path / "claims.yaml"
    path.write_text(yaml.safe_dump(FILE | {"claims": list(entries)} | more))
    return claims.read(path)


def verdict(tmp_path, claim, evidence, kind="simulated"):
    file = read(tmp_path, claim)
    return judge(file.claims[0], kind, evidence, file.effect(file.claims[0]))


def of(*values, **more):
    return Evidence(Outcome(dict(enumerate(values))), **more)


def numbers(value, rows, **more):
    """Of rows that a test has as mappings."""
    return evaluate.numbers(value, pd.DataFrame(rows), **more)


def steps(**seconds):
    """A row a variant and seed."""
    return [
        {"variant": variant.replace("_", " + "), "seed": seed, "breakdown": False, "step_s": value}
        for variant, values in seconds.items()
        for seed, value in enumerate(values)
    ]


def test_a_verb_takes_the_variant_that_is_best_over_seeds_and_pairs_by_seed(tmp_path):
    (claim,) = read(tmp_path, CLAIM).claims
    found = numbers(claim.value, steps(A=[0.5, 0.4, 0.1], A_T=[0.4, 0.3], B=[1.0, 1.2]))
    assert found.values == pytest.approx({0: 2.5, 1: 4.0})
    assert numbers(claim.value, steps(B=[1.0])).reason == "no results for A, A + T"
    apart = [row | {"seed": seed} for seed, row in enumerate(steps(A=[0.5], B=[1.0]))]
    assert "no seed in common" in numbers(claim.value, apart).reason


@pytest.mark.parametrize(
    ("verb", "expected"),
    [("ratio", 0.4), ("speedup", 2.5), ("difference", -0.6), ("reduction", 0.6), ("gain", -0.6), ("at_least", 0.0)],
)
def test_verbs_of_two_sides(tmp_path, verb, expected):
    (claim,) = read(tmp_path, CLAIM | {"value": CLAIM["value"] | {"verb": verb, "of": {"variant": "A"}}}).claims
    assert numbers(claim.value, steps(A=[0.4], B=[1.0])).values == pytest.approx({0: expected})


def test_as_much_up_to_rounding_is_at_least_as_much(tmp_path):
    (claim,) = read(tmp_path, CLAIM | {"value": CLAIM["value"] | {"verb": "at_least", "of": {"variant": "A"}}}).claims
    found = numbers(claim.value, steps(A=[0.1 + 0.2, 0.3, 0.3 - 1e-12, 0.29], B=[0.3, 0.1 + 0.2, 0.3, 0.3]))
    assert found.values == {0: 1.0, 1: 1.0, 2: 1.0, 3: 0.0}


def test_the_best_is_of_the_seed_where_it_is_greatest(tmp_path):
    value = {"verb": "best", "column": "step_s", "of": {"variant": "A"}}
    (claim,) = read(tmp_path, CLAIM | {"value": value}).claims
    assert numbers(claim.value, steps(A=[0.91, 0.94, math.nan, 0.93])).values == {1: 0.94}


def test_of_several_variants_one_is_taken(tmp_path):
    rows = steps(A=[3.0, 1.0], A_T=[2.5, 2.5, 2.5], C=[0.1])
    value = {"verb": "value", "column": "step_s", "of": {"variant": ["A", "A + T"]}}

    def taken(take):
        (claim,) = read(tmp_path, CLAIM | {"value": value | {"take": take}}).claims
        return numbers(claim.value, rows).values

    assert taken("min") == {0: 3.0, 1: 1.0}  # by medians over seeds: 2.0 and 2.5
    assert taken("max") == {0: 2.5, 1: 2.5, 2: 2.5}


def test_each_is_computed_apart_and_taken_of(tmp_path):
    pairs = {2: (4.0, 1.0), 4: (6.0, 3.0), 8: (9.0, 1.0)}
    rows = [row | {"workers": P} for P, (b, a) in pairs.items() for row in steps(A=[a], B=[b])]
    every = {"verb": "speedup", "column": "step_s", "over": {"variant": "B"}, "each": ["workers"]}

    def ours(some=rows, **more):
        of = {"variant": "A"} | more.pop("of", {})
        (claim,) = read(tmp_path, CLAIM | {"value": every | {"of": of} | more}).claims
        return numbers(claim.value, some)

    taken = {"min": 2.0, "max": 9.0, "mean": 5.0, "median": 4.0, "farthest": 9.0}
    assert {take: ours(take=take).values[0] for take in taken} == taken
    assert ours(of={"workers": [2, 4]}, take="max").values == {0: 4.0}
    slow = [row | {"step_s": 40.0} if (row["workers"], row["variant"]) == (2, "A") else row for row in rows]
    assert ours(slow, of={"workers": [2]}, take="farthest").values == {0: 0.1}
    near = [row for row in slow if row["workers"] != 8] + [r | {"workers": 3} for r in steps(A=[1.0], B=[1.5])]
    assert ours(near, of={"workers": [2, 3]}, take="farthest").values == {0: 0.1}  # 0.9 from 1, and 0.5
    assert ours(of={"workers": [2, 16]}).reason == "no results for 16"  # what is listed has to be there
    alone = [row for row in rows if (row["workers"], row["variant"]) != (8, "B")]
    assert ours(alone, take="max").values == {0: 4.0}
    assert ours(alone, of={"workers": [2, 8]}).reason == "no results for B"
    with pytest.raises(InputError, match="'model'"):
        ours(each=["model"])


def test_sides_may_be_of_a_verb_whose_ratios_may_be_off(tmp_path):
    one, other = ({"verb": "ratio", "column": "step_s", "of": {"variant": a}, "over": {"variant": b}}
                  for a, b in ("AB", "CD"))  # fmt: skip
    rows = steps(A=[6.0], B=[2.0], C=[4.0], D=[2.0])

    def ours(verb, off=1.0):
        (claim,) = read(tmp_path, CLAIM | {"value": {"verb": verb, "of": one, "over": other}}).claims
        assert claim.value.takes_error == (verb in ("difference", "at_least"))
        return numbers(claim.value, rows, off=off).values[0]

    assert (ours("ratio"), ours("difference"), ours("at_least")) == (1.5, 1.0, 1.0)
    assert ours("difference", 0.5) == 1.5 - 4.0 and ours("at_least", 0.5) == 0.0
    with pytest.raises(InputError, match="needs column"):
        read(tmp_path, CLAIM | {"value": {"verb": "ratio", "of": one, "over": {"variant": "A"}}})
    with pytest.raises(InputError, match="unknown option"):
        read(tmp_path, CLAIM | {"value": {"verb": "ratio", "of": one | {"ovr": {}}, "over": other}})


def test_phases_are_those_of_breakdown_runs_where_there_are_any(tmp_path):
    value = {"verb": "value", "column": "step_s", "of": {"variant": "A"}, "phases": True}
    (claim,) = read(tmp_path, CLAIM | {"value": value}).claims
    rows = [*steps(A=[1.0, 1.1]), steps(A=[2.0])[0] | {"breakdown": True}]
    assert numbers(claim.value, rows).values == {0: 2.0}
    assert numbers(claim.value.model_copy(update={"phases": False}), rows).values == {0: 1.0, 1: 1.1}


def test_a_target_that_one_side_never_reached_is_no_finite_ratio(tmp_path):
    (claim,) = read(tmp_path, CLAIM | {"value": CLAIM["value"] | {"of": {"variant": "A"}}}).claims
    assert numbers(claim.value, steps(A=[0.5], B=[math.inf])).values == {0: math.inf}
    assert numbers(claim.value, steps(A=[math.inf], B=[1.0])).values == {0: 0.0}
    assert verdict(tmp_path, CLAIM, of(math.inf)).verdict.text == "holds, stronger"
    assert math.isnan(numbers(claim.value, steps(A=[math.inf], B=[math.inf])).values[0])


def test_seeds_repetitions_ends_of_inputs_and_the_kinds_error_make_the_range(tmp_path):
    evidence = of(
        2.4, 2.5, 2.6, ends={"beta, low": 2.0, "beta, high": 3.2}, repeated=[2.3, 2.7], error=Error(0.1, "10 %")
    )
    found = verdict(tmp_path, CLAIM, evidence)
    assert (found.ours.low, found.ours.point, found.ours.high) == pytest.approx((2.0 / 1.1, 2.5, 3.2 * 1.1))
    assert found.seeds == 3 and found.verdict.text == "holds, within" and found.flips == []


def test_repetitions_alone_widen_the_range(tmp_path):
    found = verdict(tmp_path, CLAIM, of(2.5, repeated=[2.1, 2.8]))
    assert (found.ours.low, found.ours.point, found.ours.high) == (2.1, 2.5, 2.8)


@pytest.mark.parametrize(("low", "high", "widened"), [
    (2.0, 3.0, (1.7, 3.4)), (-3.0, -2.0, (-3.4, -1.7)), (None, 3.0, (None, 3.4)), (2.0, None, (1.7, None)),
])  # fmt: skip
def test_a_tolerance_widens_the_papers_range_either_way(tmp_path, low, high, widened):
    paper = {"low": low, "high": high, "shown": "some"}
    (claim,) = read(tmp_path, CLAIM | {"paper": paper, "tolerance": {"relative": 0.1, "absolute": 0.1}}).claims
    assert claim.widened == pytest.approx(widened)


def test_an_end_at_which_the_direction_turns_is_named(tmp_path):
    found = verdict(tmp_path, CLAIM, of(2.5, ends={"beta, low": 0.6, "beta, high": 2.6}))
    assert found.flips == ["beta, low"] and found.verdict.answer == "inconclusive"


def test_the_error_of_a_reduction_is_that_of_its_ratio(tmp_path):
    paper = {"low": 0.5, "high": 0.5, "shown": "half", "unit": "%"}
    claim = CLAIM | {"paper": paper, "tolerance": {"absolute": 0.1}, "effect": {"none": 0.0, "side": "above"}}
    found = verdict(tmp_path, claim, of(0.5, error=Error(0.25, "25 %")))
    assert (found.ours.low, found.ours.high) == pytest.approx((1 - 1.25 / 2, 1 - 1 / 2.5))


def test_the_error_of_a_gain_is_that_of_its_ratio(tmp_path):
    value = {"verb": "gain", "column": "step_s", "of": {"variant": "A"}, "over": {"variant": "B"}}
    claim = CLAIM | {"value": value, "effect": {"none": 0.0, "side": "above"}} | {"paper": {"value": 0.5, "unit": "%"}}
    found = verdict(tmp_path, claim, of(0.5, error=Error(0.25, "25 %")))
    assert (found.ours.low, found.ours.point, found.ours.high) == pytest.approx((1.5 / 1.25 - 1, 0.5, 1.5 * 1.25 - 1))


def test_a_win_smaller_than_the_error_is_no_win(tmp_path):
    assert verdict(tmp_path, CLAIM, of(1.06, error=Error(0.2, "20 %"))).verdict.answer == "inconclusive"
    assert verdict(tmp_path, CLAIM, of(1.0002)).verdict.text.startswith("no effect, weaker")


def test_a_direction_alone_has_no_size(tmp_path):
    claim = CLAIM | {"paper": {"low": 1.0, "shown": "> 1x", "unit": "x"}}
    assert verdict(tmp_path, claim, of(1.2)).verdict.text == "holds"
    assert verdict(tmp_path, claim, of(0.8)).verdict.text == "opposite"


def test_what_is_shown_and_not_judged(tmp_path):
    assert verdict(tmp_path, CLAIM, None).verdict.text == "not run"
    assert verdict(tmp_path, CLAIM, Evidence(Outcome(reason="no B"))).verdict.text == "not run (no B)"
    few = verdict(
        tmp_path, CLAIM | {"minimum_seeds": {"measured": 3, "simulated": 1}}, of(2.5, 2.5), "measured, padded"
    )
    assert few.verdict.text == "inconclusive (2 of 3 seeds)" and few.ours.point == 2.5
    for name in ("by_construction", "out_of_scope", "not_testable"):
        found = verdict(tmp_path, CLAIM, of(2.5, **{name: "because"}))
        assert not found.verdict.judged and found.verdict.reason == "because"
        assert (found.ours is None) == (name == "not_testable")
    without = {name: entry for name, entry in CLAIM.items() if name != "value"} | {"not_here": "no data"}
    assert verdict(tmp_path, without, None).verdict.text == "not testable here (no data)"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"value": None}, "needs value, or not_here"),
        ({"not_here": "no data"}, "needs value, or not_here, and not both"),
        ({"paper": {"shown": "2x"}}, "needs value, low or high"),
        ({"verdict": "holds"}, "verdict"),
        ({"about": "luck"}, "about"),
        ({"value": CLAIM["value"] | {"verb": "product"}}, "verb"),
        ({"value": CLAIM["value"] | {"over": None}}, "speedup needs over"),
        ({"value": {"of": {"variant": "A"}}}, "needs verb or function"),
        ({"tolerance": {"relative": -0.1}}, "relative"),
    ],
)
def test_what_is_no_claim(tmp_path, change, says):
    with pytest.raises(InputError, match=says) as caught:
        read(tmp_path, CLAIM | change)
    assert "claims.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="claim 'faster' stands there twice"):
        read(tmp_path, CLAIM, CLAIM)
    (tmp_path / "claims.yaml").write_text("{")
    with pytest.raises(InputError, match="not a readable claims file"):
        claims.read(tmp_path / "claims.yaml")
    (claim,) = read(tmp_path, CLAIM | {"value": CLAIM["value"] | {"column": "steps"}}).claims
    with pytest.raises(InputError, match="unknown column 'steps'"):
        numbers(claim.value, steps(A=[1.0], B=[1.0]))


def test_the_error_of_a_ratio_is_that_of_the_familys_largest_size():
    columns = ("run", "strategy", "bytes", "observed_s", "simulated_s")
    of_two = [("p2", "dsync", 100, 1.0, 1.1), ("p2", "dsync", 100, 2.0, 2.2)]
    of_four = [("p4", "dsync", 100, 1.0, 1.0), ("p4", "dsync", 100, 1.0, 0.8)]
    apart = [("p4", "other", 1000, 1.0, 9.0), ("p4", "dsync", 10, 1.0, 5.0)]
    rows = [dict(zip(columns, row)) for row in (*of_two, *of_four, *apart)]
    found = ratio_error(rows, ["dsync"], 1000)
    assert found.share == pytest.approx(0.25) and found.source.endswith(", extrapolated")
    assert "extrapolated" not in ratio_error(rows, ["dsync"], 100).source
    assert time_error(rows, ["dsync"], 100).share == pytest.approx(0.25)
    assert "of all families" in time_error(rows, ["unknown"], 100).source
    assert ratio_error([], ["dsync"], 100) is None


# --- verdicts from intervals: the answers of docs/design.md, Verdicts, and the cases that were once called a match


FASTER = Effect(none=1.0, margin=0.05, side="above")
LESS = Effect(none=0.0, margin=0.02, side="below", ratio=False)


@pytest.mark.parametrize(
    ("ours", "says"),
    [
        ((2.1, 2.5, 2.9), "holds"),
        ((0.97, 1.0, 1.04), "no effect"),
        ((0.5, 0.6, 0.9), "opposite"),
        ((0.9, 1.2, 1.4), "inconclusive"),
        ((1.04, 1.2, 1.4), "inconclusive"),  # part of it is no effect
    ],
)
def test_the_direction_of_an_effect(ours, says):
    assert direction(Interval(*ours), FASTER) == says
    slower = Interval(*(1 / end for end in reversed(ours)))  # a ratio and its inverse are as large an effect
    assert direction(slower, Effect(none=1.0, margin=0.05, side="below")) == says


def test_a_ratios_margin_is_a_factor_either_way():
    assert FASTER.band == pytest.approx((1 / 1.05, 1.05)) and LESS.band == pytest.approx((-0.02, 0.02))
    half = Effect(none=1.0, margin=1.0, side="below")
    assert direction(Interval.exact(0.51), half) == "no effect" and direction(Interval.exact(0.49), half) == "holds"


@pytest.mark.parametrize(
    ("ours", "says"),
    [
        ((2.1, 2.5, 2.9), "holds, within"),
        ((1.4, 1.5, 1.6), "holds, weaker (61 % of the effect)"),
        ((3.9, 4.0, 4.1), "holds, stronger (111 % of the effect)"),
        ((1.1, 2.5, 7.0), "holds, size inconclusive"),  # the point lies within, but it could be anything
        ((1.7, 1.9, 2.1), "holds, size inconclusive"),
    ],
)
def test_the_size_of_an_effect(ours, says):
    assert of_effect(Interval(*ours), FASTER, 1.95, 3.5).text == says


@pytest.mark.parametrize(
    ("ours", "paper", "says"),
    [
        # ratios that stood as "same direction" or "matches"
        (1.0002, 3.01, "no effect, weaker (0 % of the effect)"),
        (14_700.0, 53.0, "holds, stronger (241 % of the effect)"),
        (1.11, 1.741, "holds, weaker (19 % of the effect)"),
    ],
)
def test_what_must_not_be_called_the_same_again(ours, paper, says):
    assert of_effect(Interval.exact(ours), FASTER, 0.99 * paper, 1.01 * paper).text == says


def test_an_advantage_smaller_than_the_simulation_s_error_is_inconclusive():
    ours = Interval.exact(1.2).off_by(0.2)
    assert direction(ours, FASTER) == "inconclusive"
    assert direction(Interval.exact(1.005).off_by(0.2), FASTER) == "inconclusive"


def test_a_difference_has_no_log_scale():
    assert of_effect(Interval(-0.8, -0.5, -0.1), LESS, -0.6, -0.4).text == "holds, size inconclusive"
    assert of_effect(Interval(-0.5, -0.45, -0.42), LESS, -0.6, -0.4).text == "holds, within"
    assert of_effect(Interval(0.1, 0.2, 0.3), LESS, -0.6, -0.4).answer == "opposite"


@pytest.mark.parametrize(
    ("ours", "low", "high", "says"),
    [
        ((0.9, 1.0, 1.1), 0.8, 1.2, "holds"),
        ((0.9, 1.0, 1.3), 0.8, 1.2, "inconclusive"),
        ((1.3, 1.4, 1.5), 0.8, 1.2, "fails"),
        ((1.3, 1.4, 1.5), None, 1.2, "fails"),
        ((1.3, 1.4, 1.5), 1.2, None, "holds"),
    ],
)
def test_a_value_or_bound_has_one_answer(ours, low, high, says):
    assert of_value(Interval(*ours), low, high) == Verdict(says)


@given(st.floats(0.01, 100), st.floats(0, 3), st.floats(0, 3))
def test_an_error_widens_and_never_turns(point, error, more):
    narrow, wide = Interval.exact(point).off_by(error), Interval.exact(point).off_by(error + more)
    assert wide.low <= narrow.low <= point <= narrow.high <= wide.high
    decided = {direction(narrow, FASTER), direction(wide, FASTER)}
    assert not {"holds", "opposite"} <= decided and not {"holds", "no effect"} <= decided


def test_what_holds_on_an_implied_input_is_consistent_with_it_and_what_fails_fails():
    holds = of_effect(Interval(2.1, 2.5, 2.9), FASTER, 1.95, 3.5)
    assert holds.implied("device").text == "consistent with implied input, within (device)"
    assert not holds.implied("device").judged and not holds.implied("device").settled and holds.implied("") == holds
    assert of_value(Interval.exact(3.0), None, 2.0).implied("device").text == "fails"
