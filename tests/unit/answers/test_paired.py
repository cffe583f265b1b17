"""The non-inferiority test: properties, known answers and a known interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from repro.answers.claims.paired import compare_pairs
from repro.answers.claims.verdict import NOT_REPRODUCED, OPEN, REPRODUCED

SAMPLES = [np.random.default_rng(seed).normal(0, 0.001, 5).tolist() for seed in range(8)]


@pytest.mark.parametrize("gains", SAMPLES)
def test_properties_of_the_interval_and_the_answer(gains):
    found, swapped = compare_pairs(gains, 0.001), compare_pairs([-gain for gain in gains], 0.001)
    assert (swapped.mean, swapped.low, swapped.high) == pytest.approx((-found.mean, -found.high, -found.low))
    for times in (2, 4):  # more seeds of the same spread narrow it
        more = compare_pairs(gains * times, 0.001)
        assert more.mean == pytest.approx(found.mean) and found.low < more.low < more.high < found.high
        found = more
    answers = [compare_pairs(gains, margin).answer for margin in np.linspace(0, 0.005, 50)]
    first = answers.index(REPRODUCED)  # a wider margin never turns no loss into another answer
    assert set(answers[first:]) == {REPRODUCED} and REPRODUCED not in answers[:first]


@pytest.mark.parametrize(
    "gains, margin, answer",
    [
        ([0.001, 0.0, -0.001, 0.0005, -0.0005], 0.003, REPRODUCED),
        ([0.01, 0.011, 0.012], 0.0, REPRODUCED),  # better
        ([-0.010, -0.011, -0.012], 0.003, NOT_REPRODUCED),
        ([-0.0010, -0.0011, -0.0012], 0.003, REPRODUCED),  # a loss, but within the margin
        ([-0.0008, -0.0014, -0.002, -0.0026, -0.0032], 0.0025, OPEN),  # a loss, perhaps within the margin
        ([-0.02, 0.02, -0.01], 0.003, OPEN),
        ([-0.01, -0.01], 0.003, NOT_REPRODUCED),  # no spread at all
        ([-0.01], 0.003, OPEN),
        ([], 0.003, OPEN),
        ([-math.inf, 0.0, 0.0], 0.003, OPEN),
        ([math.nan, 0.0, 0.0], 0.003, OPEN),
    ],
)
def test_answers(gains, margin, answer):
    found = compare_pairs(gains, margin)
    assert found.answer == answer and found.pairs == len(gains)


def test_known_interval():
    found = compare_pairs([1.0, 2.0, 3.0, 4.0, 5.0], 0.5)  # t(0.95, 4) = 2.1318, standard error 0.70711
    assert (found.mean, found.low, found.high) == pytest.approx((3.0, 1.4926, 4.5074), abs=1e-4)
