"""Published numbers of the papers: `paper_configs/reference/<paper>.csv`, one row per number, with place and source."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

from repro.core import config_folders
from repro.core.errors import InputError

COLUMNS = ("place", "row", "variant", "quantity", "value", "unit", "source")
_TABLE = f"must be a table of the paper's numbers with the columns {', '.join(COLUMNS)}"


def read_numbers(paper: str) -> list[dict[str, Any]]:
    """The rows of a paper's table; InputError if it is missing, lacks columns, or has a text where a number must be."""
    return _read(config_folders.find_config("reference", f"{paper}.csv"))


def printed_number(paper: str, place: str, row: str, quantity: str, variant: str) -> tuple[str, str, str]:
    """A published number as text, with unit and source; InputError if the table does not have it."""
    wanted = (place, row, quantity, variant)
    for line in read_numbers(paper):
        if (line["place"], line["row"], line["quantity"], line["variant"]) == wanted:
            return line["value"], line["unit"], line["source"]
    raise InputError(f"{paper}.csv has nothing of {variant} in {place}, {row}, {quantity}")


def parse_number(value: str, unit: str) -> float:
    """The value as a number, percentages as fractions; ValueError if it is not a number."""
    return float(value) / (100 if unit == "%" else 1)


@cache
def _read(path: Path) -> list[dict[str, Any]]:
    """InputError if the file is no table of a paper's numbers, or lacks columns."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if missing := [column for column in COLUMNS if column not in (reader.fieldnames or ())]:
                others = [f"'{name}'" for name in reader.fieldnames or () if name not in COLUMNS]
                instead = f", but {' and '.join(others)}" if others else ""
                raise InputError(f"{path}: has no column '{missing[0]}'{instead}; {_TABLE}")
            return [_checked(line, f"{path}: line {reader.line_num}") for line in reader]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path}: {reason}; {_TABLE}") from None


def _checked(line: dict[str, Any], place: str) -> dict[str, Any]:
    """The row; InputError if a column is missing, or a value with a unit is no number."""
    if missing := [column for column in COLUMNS if line[column] is None]:
        raise InputError(f"{place}: has no {missing[0]}; {_TABLE}")
    try:
        parse_number(line["value"] if line["unit"] else "0", line["unit"])
    except ValueError:
        raise InputError(
            f"{place}: value '{line['value']}' must be a number of {line['unit']}; a text has no unit"
        ) from None
    return line
