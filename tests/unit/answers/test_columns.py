"""Columns of claims that are arithmetic on a table's columns."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from repro.answers.tables.columns import chosen, computed, names
from repro.core.errors import InputError

ROWS = pd.DataFrame([
    {"step_s": 2.0, "phases.wait": 1.0, "batch": 8, "to_0.9_s": 1, "variant": "a"},
    {"step_s": 4.0, "phases.wait": None, "batch": None, "to_0.9_s": 2, "variant": "b"},
])  # fmt: skip


@pytest.mark.parametrize(("column", "first", "second"), [
    ("step_s", 2, 4), ("to_0.9_s", 1, 2), ("1e3 * (step_s - phases.wait) / batch", 125, math.nan),
    ("-step_s + 2 * step_s", 2, 4), ("batch", 8, math.nan),
])  # fmt: skip
def test_a_column_is_itself_or_arithmetic_on_several(column, first, second):
    assert list(computed(ROWS, column)) == pytest.approx([first, second], nan_ok=True)


def test_the_columns_in_it_are_known_before_it_is_computed():
    assert names("1e3 * (step_s - phases.wait) / phases.wait", ROWS) == ["step_s", "phases.wait"]
    assert names("to_0.9_s", ROWS) == ["to_0.9_s"]


@pytest.mark.parametrize("column", [
    "__import__('os')", "@ROWS", "step_s.__class__", "batch if 1 else 2", "1 +", "f(x).z + 1", "step_s[0]",
    "(step_s)(1)", "step_s; batch", "step_s = 3", "max (step_s, batch)", "variant",
])  # fmt: skip
def test_a_claim_can_only_name_columns(column):
    with pytest.raises(InputError, match="column"):
        computed(ROWS, column)


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(InputError, match=r"phases\.idle"):
        computed(ROWS, "step_s - phases.idle")


def test_what_is_over_nothing_is_no_number():
    rows = pd.DataFrame([{"a": 1.0, "b": 0.0}, {"a": 0, "b": 0}])
    assert list(computed(rows, "a / b")) == pytest.approx([math.inf, math.nan], nan_ok=True)


def test_rows_are_chosen_by_a_value_one_of_several_or_none():
    rows = [{"family": family, "layers": layers} for family, layers in (("uniform", 4), ("uniform", 8), (None, None))]
    table = pd.DataFrame(rows)
    assert list(chosen(table, {"family": "uniform", "layers": [8, 12]}).index) == [1]
    assert list(chosen(table, {"family": None}).index) == [2]
