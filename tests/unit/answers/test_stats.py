"""Intervals over seeds, and the format of numbers."""

from __future__ import annotations

import math
from statistics import median

import pytest

from repro.answers.claims.claims import Claim
from repro.answers.claims.evaluate import Evidence, Outcome, evidence_interval
from repro.answers.claims.stats import format_number
from repro.answers.claims.verdict import Interval, Sample

CLAIM = Claim.model_validate(
    {
        **{"id": "faster", "about": "time", "text": "faster", "source": "Figure 1", "experiment": "fig1"},
        **{"paper": {"low": 2.0, "shown": "2x", "unit": "x"}, "tolerance": {"relative": 0.1}},
        "value": {"verb": "speedup", "column": "step_s", "of": {"variant": "fast"}, "over": {"variant": "slow"}},
    }
)


@pytest.mark.parametrize(("values", "ends"), [
    ([2.0], (2.0, 2.0, 2.0)), ([3.0, 1.0], (1.0, 2.0, 3.0)), ([1.0, 2.0, 4.0, 3.0], (1.0, 2.5, 4.0)),
    ([*range(7, 0, -1)], (1, 4, 7)),
    ([1.0, math.inf, 2.0], (1.0, 2.0, math.inf)), ([math.inf, math.inf, 1.0], (1.0, math.inf, math.inf)),
])  # fmt: skip
def test_the_interval_of_seeds_holds_them_all_and_an_unreached_target_is_the_greatest_value(values, ends):
    outcome = Outcome(dict(enumerate(values)))
    interval = evidence_interval(CLAIM, Evidence(outcome))
    assert interval == Interval(*ends) == Interval.of(median(values), Sample(values, drawn=False))


@pytest.mark.parametrize(("value", "text"), [
    (0.99996, "1.00"), (0.9994, "0.999"), (12.34, "12.3"), (12.35001, "12.4"), (1234.6, "1,230"), (-2.5, "-2.50"),
    (0.00012345, "0.000123"), (0.000012345, "1.23e-05"), (0, "0"), (12345, "12,345"), (math.inf, "∞"),
])  # fmt: skip
def test_numbers_have_three_digits(value, text):
    assert format_number(value) == text
