"""What a test set resolves of an accuracy is in its interval."""

from __future__ import annotations

import math

import pytest

from repro.answers.claims import evaluate
from repro.answers.claims.claims import Claim
from repro.answers.claims.compute import final, paired
from repro.answers.claims.evidence import Court
from repro.answers.claims.verdict import HOLDS, INCONCLUSIVE
from repro.answers.tables.groups import Group
from repro.answers.tables.resolution import of_function, resolved
from tests.reports.data.summaries import make

GAP = {
    "id": "gap", "about": "accuracy", "text": "no loss", "source": "abstract", "experiment": "one",
    "paper": {"low": 0.0, "shown": "no loss"}, "tolerance": {"absolute": 0.01},
    "value": {"verb": "difference", "column": "final", "of": {"variant": "B"}, "over": {"variant": "A"}},
}  # fmt: skip


def run(variant, share, examples, metric="top1"):
    one = make("D-Sync", "measured", 0)
    final = {metric: share, "test_loss": 1.0, "train_s": 1.0}
    return one | {"variant": variant, "metric": metric, "final": final, "dataset": {"name": "d", "test": examples}}


def judged(a, b, examples):
    group = Group(("one", "measured"), (run("A", a, examples), run("B", b, examples)), ("A", "B"))
    claim = Claim.model_validate(GAP)
    court = Court("gtopk", None, None, None)
    evidence = evaluate.Evidence(court.outcome(claim, group), repeated=court.repeated(claim, group))
    return evaluate.judge(claim, "measured", evidence, None)


def test_two_images_of_a_thousand_decide_nothing():
    few, many = judged(0.800, 0.798, 1_000), judged(0.800, 0.798, 10_000_000)
    assert few.verdict.answer == INCONCLUSIVE and many.verdict.answer == HOLDS
    error = math.sqrt(0.8 * 0.2 / 1_000)
    assert few.ours.high - few.ours.low == pytest.approx(4 * error, rel=0.01)
    assert few.ours.point == many.ours.point == pytest.approx(-0.002)


def test_only_shares_of_a_known_test_set_have_such_an_error():
    assert resolved(run("A", 120.0, 500, "perplexity")) == {} == resolved(run("A", 0.5, None))
    ends = resolved(run("A", 1.0, 99))
    assert ends["final_low"] == pytest.approx(0.99) and ends["final_high"] == pytest.approx(1.0)


def test_a_function_of_accuracies_has_the_error_of_each():
    group = Group(("one", "measured"), tuple(run(name, 0.8, 1_000) for name in "ABC"), ("A", "B", "C"))

    def gap(of):
        return paired(of, ["B", "A"], lambda b, a: final(b) - final(a))

    found, error = of_function(gap, group), math.sqrt(0.8 * 0.2 / 1_000)
    assert len(found) == 4 and max(found) == -min(found) == pytest.approx(2 * error, rel=0.01)
    assert not of_function(lambda of: paired(of, ["A"], lambda a: 1.0), Group((), (run("A", 0.8, None),), ("A",)))
