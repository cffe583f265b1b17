"""Verdicts from intervals: the answers of DESIGN section 9, and the cases that were once called a match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.reporting.interval import Interval
from repro.reporting.verdict import Effect, Verdict, direction, of_effect, of_value

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
