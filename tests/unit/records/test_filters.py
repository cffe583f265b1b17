"""Conditions on the columns of a table: as texts, as a mapping, and with values of every type."""

from __future__ import annotations

import pytest

from repro.core.errors import InputError
from repro.records.filters import match_rows, select_rows
from repro.records.tables import make_frame

TABLE = make_frame(
    [
        {"strategy": "dsync", "workers": 4, "step_s": 0.5, "standin": True, "mixed": 1},
        {"strategy": "pipe_sgd", "workers": 8, "step_s": None, "standin": False, "mixed": "T"},
        {"strategy": "ps_sync", "workers": None, "step_s": 2, "standin": None},
    ]
)


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        ([], ["dsync", "pipe_sgd", "ps_sync"]),
        (["workers=4"], ["dsync"]),
        (["workers!=4"], ["pipe_sgd"]),
        ([" step_s >= 0.5 "], ["dsync", "ps_sync"]),
        (["step_s>=0.5", "step_s<2"], ["dsync"]),
        (["strategy!=dsync"], ["pipe_sgd", "ps_sync"]),
        (["standin=false"], ["pipe_sgd"]),
        (["mixed=1"], ["dsync"]),
        (["strategy=a=b"], []),
    ],
)
def test_rows_are_chosen_by_their_columns(conditions, names):
    assert list(select_rows(TABLE, conditions)["strategy"]) == names


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ({}, ["dsync", "pipe_sgd", "ps_sync"]),
        ({"workers": 4}, ["dsync"]),
        ({"workers": [4, 8], "standin": False}, ["pipe_sgd"]),
        ({"workers": "4"}, ["dsync"]),
        ({"workers": None}, ["ps_sync"]),
        ({"step_s": [0.5, None]}, ["dsync", "pipe_sgd"]),
        ({"workers": range(5, 9)}, ["pipe_sgd"]),
        ("workers=4", ["dsync"]),
    ],
)
def test_a_mapping_has_a_value_or_the_allowed_values_of_each_column(where, names):
    assert list(select_rows(TABLE, where)["strategy"]) == names


def test_lists_are_matched_as_tables_are():
    columns = {name: [None if value is None else value for value in TABLE[name]] for name in ("strategy", "mixed")}
    for where in ({"strategy": ["dsync", "ps_sync"]}, "strategy!=pipe_sgd"):
        assert [columns["strategy"][row] for row in match_rows(columns, where, range(3))] == ["dsync", "ps_sync"]


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("workers", "where workers: must be COLUMN, one of = != < <= > >=, and a value"),
        ("worker=4", "unknown column 'worker'; valid: workers"),
        ("workers=four", "'four' must be a number"),
        ("standin>true", "must be =true or =false"),
        ("strategy<dsync", "strategy holds text"),
    ],
)
def test_invalid_conditions(condition, words):
    with pytest.raises(InputError) as caught:
        select_rows(TABLE, [condition])
    assert words in str(caught.value)


def test_columns_have_one_type():
    assert dict(TABLE.dtypes.astype(str)) == {
        "strategy": "object", "workers": "Int64", "step_s": "float64", "standin": "boolean", "mixed": "object",
    }  # fmt: skip
