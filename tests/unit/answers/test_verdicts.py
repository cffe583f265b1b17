"""Claims files, the numbers that verbs compute from runs, and verdicts from numbers with their uncertainty."""

from __future__ import annotations

import math
from datetime import date
from types import SimpleNamespace

import pytest
import yaml

from repro.answers.claims import claims, evaluate
from repro.answers.claims.decisive import choose_verdict
from repro.answers.claims.evaluate import Evidence, Outcome, judge_claim
from repro.answers.claims.stats import TIMES
from repro.answers.claims.value import Value
from repro.answers.claims.verdict import (
    CONSISTENT,
    LARGER,
    NOT_RUN,
    OPEN,
    REPRODUCED,
    SMALLER,
    Interval,
    Sample,
    Verdict,
)
from repro.answers.figures.specification import Experiment
from repro.answers.pages import wording
from repro.answers.pages.claim_tables import ClaimTables
from repro.answers.pages.files import Files
from repro.answers.tables import results
from repro.answers.tables.runs import Row, Runs
from repro.core.errors import InputError
from repro.records.variants import REFERENCE, WORKSPACE

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
    return claims.read_claims(path)


def value_of(**changes):
    return Value.model_validate(CLAIM["value"] | {"of": {"variant": "A"}} | changes)


def verdict(tmp_path, claim, evidence, kind="simulated"):
    file = read(tmp_path, claim)
    return judge_claim(file.claims[0], kind, evidence, file.effect(file.claims[0]))


def of(*values, **more):
    return Evidence(Outcome(dict(enumerate(values))), **more)


def numbers(value, rows, **more):
    """Of rows that a test has as mappings."""
    return evaluate.compute_numbers(value, Runs({}, dict(enumerate(map(Row, rows)))), **more)


def steps(**seconds):
    """A row a variant and seed."""
    return [
        {"variant": variant.replace("_", " + "), "seed": seed, "breakdown": False, "step_s": value}
        for variant, values in seconds.items()
        for seed, value in enumerate(values)
    ]


def test_a_verb_takes_the_variant_that_is_best_over_seeds_and_pairs_by_seed():
    value = value_of(of={"variant": ["A", "A + T"]})
    found = numbers(value, steps(A=[0.5, 0.4, 0.1], A_T=[0.4, 0.3], B=[1.0, 1.2]))
    assert found.values == pytest.approx({0: 2.5, 1: 4.0})
    assert numbers(value, steps(B=[1.0])).reason == "no results for A, A + T"
    apart = [row | {"seed": seed} for seed, row in enumerate(steps(A=[0.5], B=[1.0]))]
    assert "no seed in common" in numbers(value, apart).reason


EITHER = {"verb": "value", "over": None, "of": {"variant": ["A", "A + T"]}}  # medians over seeds: 2.0 and 2.5
SEVERAL = {"A": [3.0, 1.0], "A_T": [2.5, 2.5, 2.5], "C": [0.1]}
NEAR = {"A": [0.1 + 0.2, 0.3, 0.3 - 1e-12, 0.29], "B": [0.3, 0.1 + 0.2, 0.3, 0.3]}  # equal up to rounding


@pytest.mark.parametrize(("value", "seconds", "expected"), [
    ({"verb": "ratio"}, {"A": [0.4], "B": [1.0]}, {0: 0.4}), ({"verb": "speedup"}, {"A": [0.4], "B": [1.0]}, {0: 2.5}),
    ({"verb": "difference"}, {"A": [0.4], "B": [1.0]}, {0: -0.6}), ({"verb": "gain"}, {"A": [3], "B": [2]}, {0: 0.5}),
    ({"verb": "reduction"}, {"A": [0.4], "B": [1.0]}, {0: 0.6}),
    ({"verb": "at_least"}, NEAR, {0: 1.0, 1: 1.0, 2: 1.0, 3: 0.0}),
    ({"verb": "best", "over": None}, {"A": [0.91, 0.94, math.nan, 0.93]}, {1: 0.94}),
    (EITHER, SEVERAL, {0: 3.0, 1: 1.0}), (EITHER | {"take": "max"}, SEVERAL, {0: 2.5, 1: 2.5, 2: 2.5}),
    ({}, {"A": [0.5], "B": [math.inf]}, {0: math.inf}), ({}, {"A": [math.inf], "B": [1.0]}, {0: 0.0}),
    ({}, {"A": [math.inf], "B": [math.inf]}, {0: math.nan}), ({}, {"A": [math.inf], "B": [math.nan]}, {0: math.nan}),
])  # fmt: skip
def test_numbers_of_verbs(value, seconds, expected):
    assert numbers(value_of(**value), steps(**seconds)).values == pytest.approx(expected, nan_ok=True)


def test_each_is_computed_apart_and_taken_of():
    pairs = {2: (4.0, 1.0), 4: (6.0, 3.0), 8: (9.0, 1.0)}
    rows = [row | {"workers": P} for P, (b, a) in pairs.items() for row in steps(A=[a], B=[b])]

    def ours(some=rows, of=None, **more):
        return numbers(value_of(of={"variant": "A"} | (of or {}), **({"each": ["workers"]} | more)), some)

    taken = {"min": 2.0, "max": 9.0, "mean": 5.0, "median": 4.0, "farthest": 9.0}
    assert {take: ours(take=take).values[0] for take in taken} == taken
    assert ours(of={"workers": [2, 4]}, take="max").values == {0: 4.0}
    slow = [row | {"step_s": 40.0} if (row["workers"], row["variant"]) == (2, "A") else row for row in rows]
    assert ours(slow, {"workers": [2]}, take="farthest").values == {0: 0.1}
    near = [row for row in slow if row["workers"] != 8] + [r | {"workers": 3} for r in steps(A=[1.0], B=[1.5])]
    assert ours(near, {"workers": [2, 3]}, take="farthest").values == {0: 0.1}  # 0.9 from 1, and 0.5
    assert ours(of={"workers": [2, 16]}).reason == "no results for 16"  # what is listed has to be there
    alone = [row for row in rows if (row["workers"], row["variant"]) != (8, "B")]
    assert ours(alone, take="max").values == {0: 4.0}
    assert ours(alone, {"workers": [2, 8]}).reason == "no results for B"
    for wrong in ({"each": ["model"]}, {"column": "steps"}):
        with pytest.raises(InputError, match=r"unknown column '(model|steps)'"):
            ours(**wrong)


def test_sides_may_be_of_a_verb(tmp_path):
    one, other = ({"verb": "ratio", "column": "step_s", "of": {"variant": a}, "over": {"variant": b}}
                  for a, b in ("AB", "CD"))  # fmt: skip
    rows = steps(A=[6.0], B=[2.0], C=[4.0], D=[2.0])
    for verb, expected in (("ratio", 1.5), ("difference", 1.0), ("at_least", 1.0)):
        value = Value.model_validate({"verb": verb, "of": one, "over": other})
        assert numbers(value, rows).values == {0: expected}
    with pytest.raises(InputError, match="needs column"):
        read(tmp_path, CLAIM | {"value": {"verb": "ratio", "of": one, "over": {"variant": "A"}}})
    with pytest.raises(InputError, match="unknown option"):
        read(tmp_path, CLAIM | {"value": {"verb": "ratio", "of": one | {"ovr": {}}, "over": other}})


def test_phases_are_those_of_breakdown_runs_where_there_are_any():
    rows = [*steps(A=[1.0, 1.1]), steps(A=[2.0])[0] | {"breakdown": True}]
    assert numbers(value_of(verb="value", over=None, phases=True), rows).values == {0: 2.0}
    assert numbers(value_of(verb="value", over=None), rows).values == {0: 1.0, 1: 1.1}


def test_a_factor_is_over_the_middle_of_the_printed_range_and_of_a_claim_without_a_size_there_is_none(tmp_path):
    longer = CLAIM | {"paper": {"low": 1.0, "shown": "longer", "unit": "x"}, "tolerance": {"absolute": 0}}
    few = Sample([0.7] * 64, drawn=True)
    for claim, factor in ((CLAIM, pytest.approx(0.7 / math.sqrt(2 * 3))), (longer, None)):
        assert verdict(tmp_path, claim, of(0.7, sample=few)).verdict.factor == factor


def test_a_number_that_is_the_median_draws_says_so(tmp_path):
    found = verdict(tmp_path, CLAIM, of(2.4, sample=Sample([1.0] * 3 + [2.5, 2.6] * 31, drawn=True)))
    assert wording.ours(found).endswith("median draw)")
    assert "median" not in wording.ours(verdict(tmp_path, CLAIM, of(2.55, sample=Sample([2.5, 2.6] * 32, drawn=True))))


def test_draws_make_the_range_and_the_share_and_repetitions_the_range(tmp_path):
    found = verdict(tmp_path, CLAIM, of(2.4, sample=Sample([1.0] * 3 + [2.5] * 61, drawn=True)))
    assert found.estimate == Interval(2.5, 2.5, 2.5, median=True)  # 90 % of the draws; the best guess is none of them
    assert found.verdict.answer == REPRODUCED and found.verdict.size.text == "61 of 64"
    fixed = of(2.4, sample=Sample([2.5] * 64, drawn=True), by_construction="fixed by alpha_s")
    assert verdict(tmp_path, CLAIM, fixed).estimate == Interval(2.4, 2.4, 2.5)
    assert verdict(tmp_path, CLAIM, of(2.5, repeated=[2.1, 2.8])).estimate == Interval(2.1, 2.5, 2.8)


@pytest.mark.parametrize(("low", "high", "widened"), [
    (2.0, 3.0, (1.7, 3.4)), (-3.0, -2.0, (-3.4, -1.7)), (None, 3.0, (None, 3.4)), (2.0, None, (1.7, None)),
])  # fmt: skip
def test_a_tolerance_widens_the_papers_range_either_way(tmp_path, low, high, widened):
    paper = {"low": low, "high": high, "shown": "some"}
    (claim,) = read(tmp_path, CLAIM | {"paper": paper, "tolerance": {"relative": 0.1, "absolute": 0.1}}).claims
    assert claim.widened == pytest.approx(widened)


@pytest.mark.parametrize("relative", [0.0, 0.1])
def test_at_least_so_much_is_a_size_that_any_larger_number_has(tmp_path, relative):
    much = CLAIM | {"paper": {"low": 2.0, "shown": "much", "unit": "x"}}
    much |= {"tolerance": {"relative": relative}, "headline": True}
    found = verdict(tmp_path, much, of(9.0, sample=Sample([9.0] * 64, drawn=True)))
    assert found.verdict.answer == REPRODUCED and found.verdict.size.text == "64 of 64"
    less = verdict(tmp_path, much, of(1.2, sample=Sample([1.2] * 64, drawn=True))).verdict
    assert less.words == "smaller: 0.60 of the bound"  # without the tolerance
    file = read(tmp_path, much)
    shown = ClaimTables("p", file, {}, {}, Files("p", tmp_path)).judged_by(file.claims[0])
    (row,) = wording.describe_headlines([found]).to_dict("records")
    assert row["paper_low"] == 2.0 and math.isnan(row["paper_high"])  # one mark in the picture, of a bound
    lost = verdict(tmp_path, much, of(9.0, sample=Sample([0.0] * 8 + [9.0] * 56, drawn=True)))
    (row,) = wording.describe_headlines([lost]).to_dict("records")
    assert row["unit"] == "x" and row["low"] == 0.0  # a mark with an arrow
    assert shown == f"at least {2 - 2 * relative:g}{TIMES}; above 1.05{TIMES}"


def test_a_number_of_the_user_s_stands_beside_a_committed_one_that_decides(tmp_path):
    """The page had the committed number alone, and the terminal the user's."""
    file = read(tmp_path, CLAIM | {"headline": True})
    committed, mine = (
        judge_claim(
            file.claims[0],
            kind,
            of(number, sample=Sample([number, number + 0.1] * 32, drawn=True), origin=origin),
            None,
        )
        for number, kind, origin in ((1.44, "emulated", REFERENCE), (1.47, "simulated", WORKSPACE))
    )
    table = ClaimTables("p", file, {"faster": [committed, mine]}, {}, Files("p", tmp_path)).headline_table
    assert "1.44" in table and f"1.47{TIMES} (1.47 to 1.57), simulated, yours ({mine.verdict.text})" in table
    table = ClaimTables("p", file, {"faster": [committed]}, {}, Files("p", tmp_path)).headline_table
    assert "yours" not in table


@pytest.mark.parametrize(("values", "answer"), [
    ([1.2], "reproduced"), ([0.8], "not reproduced"), ([1.2, 0.8], "open"), ([math.inf], "reproduced"),
])  # fmt: skip
def test_a_direction_alone_has_no_size(tmp_path, values, answer):
    claim = CLAIM | {"paper": {"low": 1.0, "shown": "> 1x", "unit": "x"}}
    assert verdict(tmp_path, claim, of(*values)).verdict.answer == answer
    assert verdict(tmp_path, CLAIM, of(math.inf)).verdict.answer == LARGER
    words = CLAIM | {"paper": {"shown": "faster", "unit": "x"}}
    assert verdict(tmp_path, words, of(*values)).verdict.answer == answer
    assert read(tmp_path, words).claims[0].paper.low == 1.05  # the bound is the effect's, entered nowhere else


def test_what_is_shown_and_not_judged(tmp_path):
    assert verdict(tmp_path, CLAIM, None).verdict.text == "not run"
    assert verdict(tmp_path, CLAIM, Evidence(Outcome(reason="no B"))).verdict.text == "not run (no B)"
    claim = CLAIM | {"minimum_seeds": {"measured": 3, "simulated": 1}}
    few = verdict(tmp_path, claim, of(2.5, 2.5), "measured, padded")
    assert few.verdict.text == "open (2 seeds, 3 needed)" and few.estimate.point == 2.5
    for name in ("by_construction", "out_of_scope", "not_drawn", "not_testable"):
        found = verdict(tmp_path, CLAIM, of(2.5, **{name: "because"}))
        assert not found.verdict.judged and found.verdict.reason == "because"
        assert (found.estimate is None) == (name == "not_testable")
    without = {name: entry for name, entry in CLAIM.items() if name != "value"} | {"not_here": "no data"}
    assert verdict(tmp_path, without, None).verdict.text == "not testable here (no data)"


@pytest.mark.parametrize(("change", "says"), [
    ({"value": None}, "needs value, or not_here"), ({"not_here": "no data"}, "needs value, or not_here, and not both"),
    ({"paper": {"shown": "2x"}, "effect": None}, "needs value, low or high"), ({"verdict": "reproduced"}, "verdict"),
    ({"paper": {"low": 2.0, "high": math.inf, "shown": "2x"}}, "finite"),
    ({"about": "luck"}, "about"), ({"value": CLAIM["value"] | {"verb": "product"}}, "verb"),
    ({"value": CLAIM["value"] | {"over": None}}, "speedup needs over"), ({"tolerance": {"relative": -0.1}}, "relative"),
    ({"value": {"of": {"variant": "A"}}}, "needs verb or function"),
])  # fmt: skip
def test_what_is_no_claim(tmp_path, change, says):
    with pytest.raises(InputError, match=says) as caught:
        read(tmp_path, CLAIM | change)
    assert "claims.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match="claim 'faster' stands there twice"):
        read(tmp_path, CLAIM, CLAIM)
    (tmp_path / "claims.yaml").write_text("{")
    with pytest.raises(InputError, match="not a readable claims file"):
        claims.read_claims(tmp_path / "claims.yaml")


@pytest.mark.parametrize(
    ("verdicts", "decides"),
    [
        ({"measured": OPEN, "simulated": REPRODUCED}, "simulated"),  # a decided verdict before an open one
        ({"simulated": REPRODUCED, "emulated": SMALLER}, "emulated"),  # of decided ones the kind nearer to hardware
        ({"measured": CONSISTENT, "simulated": OPEN}, "simulated"),  # a verdict before an input
        ({"measured": NOT_RUN, "simulated": CONSISTENT}, "simulated"),
    ],
)
def test_which_kind_of_number_decides_a_claim(verdicts, decides):
    kinds = [SimpleNamespace(kind=kind, verdict=Verdict(answer), estimate=None) for kind, answer in verdicts.items()]
    assert choose_verdict(kinds).kind == decides


def test_of_verdicts_that_were_not_run_one_with_a_number_decides():
    kinds = [SimpleNamespace(kind=kind, verdict=Verdict(NOT_RUN), estimate=None) for kind in ("measured", "simulated")]
    kinds[1].estimate = Interval(1.0, 1.5, 2.0)
    assert choose_verdict(kinds) is kinds[1]


def test_one_emulated_run_that_no_draw_moves_decides_no_time(tmp_path):
    still, moved = (Sample(values, drawn=True) for values in ((2.5,) * 64, (2.4, 2.5) * 32))
    assert verdict(tmp_path, CLAIM, of(2.5, sample=moved), "emulated").verdict.answer == REPRODUCED
    for alone in ({"sample": still}, {}):
        found = verdict(tmp_path, CLAIM, of(2.5, **alone), "emulated").verdict
        assert found.answer == OPEN and found.reason == "1 seed, 3 needed"
        assert verdict(tmp_path, CLAIM, of(2.5, 2.5, 2.5, **alone), "emulated").verdict.answer == REPRODUCED
    theory = CLAIM | {"about": "theory"}
    assert verdict(tmp_path, theory, of(2.5), "emulated").verdict.answer == REPRODUCED


def test_a_claim_on_an_experiment_that_its_page_does_not_know_is_an_error(monkeypatch):
    """It would be `not run` for ever, whatever is run."""
    monkeypatch.setattr(results, "_experiments", lambda paper: {"fig4-mnst": Experiment()})
    with pytest.raises(InputError, match=r"claims\.yaml: claim \S+: unknown experiment 'fig4-\S+'.*fig4-mnst"):
        results.arrange("pipesgd", [])
