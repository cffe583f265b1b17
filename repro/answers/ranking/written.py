"""The CSV files that `repro map --out reports/recommend` writes: rows of dataclasses, floats with six digits.

It does not import PyTorch: pages are built from these files alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, TypeVar

from pydantic import TypeAdapter

from repro.core.paths import REPORTS

FOLDER = REPORTS / "recommend"
T = TypeVar("T")


def as_csv(kind: type, rows: Sequence[Any]) -> str:
    """Rows of a dataclass, with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({n: f"{v:.6g}" if isinstance(v, float) else v for n, v in asdict(row).items()})
    return text.getvalue()


def from_csv(kind: type[T], text: str) -> list[T]:
    """The rows of `as_csv`; an empty entry is None."""
    rows = [{name: entry or None for name, entry in row.items()} for row in csv.DictReader(io.StringIO(text))]
    return TypeAdapter(list[kind]).validate_python(rows)  # type: ignore[valid-type]


def read_written(kind: type[T], name: str) -> list[T]:
    """The committed rows of a file."""
    return from_csv(kind, (FOLDER / f"{name}.csv").read_text(encoding="utf-8"))
