"""Intervals over seeds, and the format of numbers."""

from __future__ import annotations

import math
from math import comb

import pytest

from repro.answers.claims.stats import format_number, spread_over_seeds


def share_below(n: int, k: int) -> float:
    """Of all resamples of n values (odd) the share whose median is at most the k-th smallest value."""
    return sum(comb(n, j) * (k / n) ** j * (1 - k / n) ** (n - j) for j in range((n + 1) // 2, n + 1))


@pytest.mark.parametrize("n", [25, 101])
def test_a_bootstrap_interval_leaves_out_a_fortieth_at_either_end(n):
    low, middle, high = spread_over_seeds(range(1, n + 1))
    assert middle == (n + 1) / 2
    slack = 0.006  # of shares that 2000 draws estimate
    assert share_below(n, int(low) - 1) - slack <= 0.025 <= share_below(n, int(low)) + slack
    assert 1 - share_below(n, int(high)) - slack <= 0.025 <= 1 - share_below(n, int(high) - 1) + slack
    assert spread_over_seeds(range(n, 0, -1)) == (low, middle, high)  # whatever their order


@pytest.mark.parametrize(("values", "ends"), [
    ([2.0], (2.0, 2.0, 2.0)), ([3.0, 1.0], (1.0, 2.0, 3.0)), ([1.0, 2.0, 4.0, 3.0], (1.0, 2.5, 4.0)),
    ([1.0, math.inf, 2.0], (1.0, 2.0, math.inf)), ([math.inf, math.inf, 1.0], (1.0, math.inf, math.inf)),
])  # fmt: skip
def test_few_seeds_have_their_ends_and_an_unreached_target_is_the_greatest_value(values, ends):
    assert spread_over_seeds(values) == ends


@pytest.mark.parametrize(("value", "text"), [
    (0.99996, "1.00"), (0.9994, "0.999"), (12.34, "12.3"), (12.35001, "12.4"), (1234.6, "1,230"), (-2.5, "-2.50"),
    (0.00012345, "0.000123"), (0.000012345, "1.23e-05"), (0, "0"), (12345, "12,345"), (math.inf, "∞"),
])  # fmt: skip
def test_numbers_have_three_digits(value, text):
    assert format_number(value) == text
