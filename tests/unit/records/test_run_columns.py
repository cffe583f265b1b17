"""Each column of the table `runs` is declared once, and its source is in the record's schema."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import BaseModel

from repro.core.errors import InputError
from repro.core.fields import check_fields
from repro.records.record import Record, Step
from repro.records.run_columns import COLUMNS, ENTRIES, run_row
from tests.reports.data.summaries import make
from tests.support.records import found_of


def reaches(form: Any, path: list[str]) -> bool:
    """Whether some value of a type has an entry at a path; what a mapping holds is free."""
    if not path or (getattr(form, "__origin__", form) is dict):
        return True
    if isinstance(form, type) and issubclass(form, BaseModel):
        entry = form.model_fields.get(path[0])
        return reaches(entry.annotation, path[1:]) if entry else len(path) == 1 and hasattr(form, path[0])
    return any(reaches(part, path) for part in get_args(form))


@pytest.mark.parametrize("path", [column.source for column in COLUMNS if isinstance(column.source, str)])
def test_a_columns_path_is_an_entry_of_a_record(path):
    assert reaches(Record, path.split("."))


def test_no_column_is_declared_twice():
    """No entry of the configuration either, which are columns by their own declaration."""
    names = [column.name for column in COLUMNS]
    assert len({*names}) == len(names) and not {*ENTRIES} & {*names}


def test_a_row_has_what_only_pages_had():
    ranks = [{"wait_s": 1.0, "name": "a"}, {"wait_s": 3.0}]
    row = run_row(found_of(make("D-Sync", per_rank=ranks, counters={"skipped": 2}, wall={"total_s": 9.0})))
    assert row["per_rank.wait_s"] == 2.0 and row["counters.skipped"] == 2 and row["wall.total_s"] == 9.0
    assert row["final.top1"] == row["final"] and row["step.mean_s"] == row["step_s"]
    assert row["loss.fallen"] > 0 and row["to_0.95_iterations"] > 0


@pytest.mark.parametrize(("value", "must"), [(float("nan"), "a finite number"), ("fast", "a number")])
def test_a_number_of_a_record_must_be_one(value, must):
    with pytest.raises(InputError, match=f"result.step.mean_s={value}: must be {must}$"):
        check_fields(Step, {"mean_s": value}, "result.step")
