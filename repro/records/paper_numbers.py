"""The numbers that a paper prints: `paper_configs/reference/<paper>.csv`, a row a number with its place and source."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

from repro.core import config_folders
from repro.core.errors import InputError

COLUMNS = ("place", "row", "variant", "quantity", "value", "unit", "source")
_TABLE = f"must be a table of the paper's numbers with the columns {', '.join(COLUMNS)}"


def table(paper: str) -> list[dict[str, Any]]:
    """The rows of a paper's table; InputError where there is none, or one without its columns."""
    return _read(config_folders.find("reference", f"{paper}.csv"))


def printed(paper: str, place: str, row: str, quantity: str, variant: str) -> tuple[str, str, str]:
    """What a paper's table has there: the value as it stands, its unit, its source. InputError for nothing."""
    where = (place, row, quantity, variant)
    for line in table(paper):
        if (line["place"], line["row"], line["quantity"], line["variant"]) == where:
            return line["value"], line["unit"], line["source"]
    raise InputError(f"{paper}.csv has nothing of {variant} in {place}, {row}, {quantity}")


def number(value: str, unit: str) -> float:
    """What stands in a paper's table as a number, of a percentage the share; ValueError where it is none."""
    return float(value) / (100 if unit == "%" else 1)


@cache
def _read(path: Path) -> list[dict[str, Any]]:
    check_table(path)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def check_table(path: Path) -> None:
    """InputError where there is no table of a paper's numbers, or one without its columns."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            columns = next(csv.reader(file), [])
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: {reason}; {_TABLE}") from None
    if lacking := [column for column in COLUMNS if column not in columns]:
        raise InputError(f"{path}: has no column '{lacking[0]}'; {_TABLE}")
