"""Columns by arithmetic, and the rows that a filter chooses."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from repro.answers.tables.columns import computed, end_of, find_columns
from repro.core.errors import InputError
from repro.records.filters import select_rows

ROWS = pd.DataFrame([
    {"step_s": 2.0, "phases.wait": 1.0, "batch": 8, "to_0.9_s": 1, "variant": "a"},
    {"step_s": 4.0, "phases.wait": None, "batch": None, "to_0.9_s": 2, "variant": "b"},
])  # fmt: skip
NONE = pd.DataFrame([{"a": 1.0, "b": 0.0}, {"a": 0, "b": 0}])


@pytest.mark.parametrize(("rows", "column", "reads", "expected"), [
    (ROWS, "step_s", ["step_s"], [2, 4]), (ROWS, "to_0.9_s", ["to_0.9_s"], [1, 2]),
    (ROWS, "1e3 * (step_s - phases.wait) / batch", ["step_s", "phases.wait", "batch"], [125, math.nan]),
    (ROWS, "-step_s + 2 * step_s", ["step_s"], [2, 4]), (ROWS, "batch", ["batch"], [8, math.nan]),
    (NONE, "a / b", ["a", "b"], [math.inf, math.nan]),
])  # fmt: skip
def test_a_column_is_itself_or_arithmetic_on_several(rows, column, reads, expected):
    assert list(computed(rows, column)) == pytest.approx(expected, nan_ok=True)
    assert find_columns(column, rows.__contains__) == reads


@pytest.mark.parametrize("column", [
    "__import__('os')", "@ROWS", "step_s.__class__", "batch if 1 else 2", "1 +", "f(x).z + 1", "step_s[0]",
    "(step_s)(1)", "step_s; batch", "step_s = 3", "max (step_s, batch)", "variant", "step_s - phases.idle",
])  # fmt: skip
def test_a_claim_can_only_name_columns(column):
    with pytest.raises(InputError, match="column.*phases.idle" if "idle" in column else "column"):
        computed(ROWS, column)


def test_rows_are_chosen_by_a_value_one_of_several_or_none():
    rows = [{"family": family, "layers": layers} for family, layers in (("uniform", 4), ("uniform", 8), (None, None))]
    table = pd.DataFrame(rows)
    assert list(select_rows(table, {"family": "uniform", "layers": [8, 12]}).index) == [1]
    assert list(select_rows(table, {"family": None}).index) == [2]


@pytest.mark.parametrize(("column", "low"), [
    ("final", "final_low"), ("seconds.median", "seconds.min"), ("observed_s.median", "observed_s.min"),
    ("lengths.median", "lengths.median_low"),  # of a distribution, whose ends are no error of its median
])  # fmt: skip
def test_the_interval_of_a_repeated_time_is_that_of_its_repetitions(column, low):
    assert end_of(column, "low") == low and end_of(column, "") == column
