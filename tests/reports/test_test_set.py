"""What a test set resolves of an accuracy is in its interval."""

from __future__ import annotations

import math

import pytest

from repro.answers.claims import evaluate
from repro.answers.claims.claims import Claim
from repro.answers.claims.evidence import outcome_of, repetition_ends
from repro.answers.claims.verdict import OPEN, REPRODUCED
from repro.answers.tables.runs import Runs
from repro.records.run_columns import run_row
from tests.reports.data.summaries import make
from tests.support.records import found_of

GAP = {
    "id": "gap", "about": "accuracy", "text": "no loss", "source": "abstract", "experiment": "one",
    "paper": {"low": 0.0, "shown": "no loss"}, "tolerance": {"absolute": 0.01},
    "value": {"verb": "difference", "column": "final", "of": {"variant": "B"}, "over": {"variant": "A"}},
}  # fmt: skip


def run(variant, share, examples, metric="top1"):
    final = {metric: share, "test_loss": 1.0, "train_s": 1.0}
    dataset = {"name": "d", "standin": False, "test": examples}
    return found_of(make() | {"variant": variant, "metric": metric, "final": final, "dataset": dataset})


def judged(a, b, examples):
    group, claim = Runs.of([run("A", a, examples), run("B", b, examples)]), Claim.model_validate(GAP)
    evidence = evaluate.Evidence(outcome_of(claim, group), repeated=repetition_ends(claim, group))
    return evaluate.judge_claim(claim, "measured", evidence, None)


def test_two_images_of_a_thousand_decide_nothing():
    few, many = judged(0.800, 0.798, 1_000), judged(0.800, 0.798, 10_000_000)
    assert few.verdict.answer == OPEN and many.verdict.answer == REPRODUCED
    error = math.sqrt(0.8 * 0.2 / 1_000)
    assert few.estimate.high - few.estimate.low == pytest.approx(4 * error, rel=0.01)
    assert few.estimate.point == many.estimate.point == pytest.approx(-0.002)


def test_only_shares_of_a_known_test_set_have_such_an_error():
    def ends(found):
        row = run_row(found)
        return row["final_low"], row["final_high"]

    assert ends(run("A", 120.0, 500, "perplexity")) == (None, None) == ends(run("A", 0.5, None))
    assert ends(run("A", 1.0, 99)) == pytest.approx((0.99, 1.0))


def test_what_lies_outside_of_others_has_the_error_of_each():
    value = {"verb": "outside", "column": "final", "of": {"variant": "B"}, "over": {"variant": ["A", "C"]}}
    claim = Claim.model_validate(GAP | {"value": value, "paper": {"value": 0, "shown": "between"}})
    group, error = Runs.of(run(name, 0.8, 1_000) for name in "ABC"), math.sqrt(0.8 * 0.2 / 1_000)
    assert outcome_of(claim, group).values == {0: 0.0}
    assert repetition_ends(claim, group) == pytest.approx([2 * error, 2 * error], rel=0.01)
    apart = Runs.of(run(name, share, 1_000) for name, share in (("A", 0.8), ("B", 0.7), ("C", 0.9)))
    assert outcome_of(claim, apart).values == {0: pytest.approx(0.1)}
