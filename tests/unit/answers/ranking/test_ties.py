"""The margin within which strategies tie."""

from __future__ import annotations

from repro.answers.ranking.candidates import tied_names


def test_strategies_tie_up_to_one_percent_of_the_fastest_in_their_order():
    assert tied_names({"a": 1.0099, "b": 1.0, "c": 1.0101}) == ["a", "b"]
    assert tied_names({"a": 2.0, "b": 2.0199}) == ["a", "b"]
