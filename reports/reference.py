"""A paper's numbers (`paper_configs/reference/<paper>.csv`), each with its place and source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from repro.common.errors import InputError
from repro.common.paths import CONFIGS

if TYPE_CHECKING:
    import pandas as pd


def read(paper: str, path: Path | None = None) -> pd.DataFrame:
    """The table as text: place, row, variant, quantity, value, unit, source."""
    import pandas as pd

    path = path or CONFIGS / "reference" / f"{paper}.csv"
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable table ({error})") from None


@dataclass(frozen=True)
class Quoted:
    """A reference table; every number on a page that is the paper's comes from here."""

    table: pd.DataFrame
    paper: ClassVar[str] = ""

    def text(self, place: str, row: str, variant: str, quantity: str) -> str:
        """A value as the paper prints it; a missing row is a mistake in the table."""
        if (found := self.maybe(place, row, variant, quantity)) is None:
            where = ", ".join((place, row, variant, quantity))
            raise InputError(f"reference/{self.paper}.csv: no row of {where}")
        return found

    def maybe(self, place: str, row: str, variant: str, quantity: str) -> str | None:
        """The same, None where the paper prints nothing; two such rows are a mistake."""
        found = self._values.get((place, row, variant, quantity), ())
        if len(found) > 1:
            where = ", ".join((place, row, variant, quantity))
            raise InputError(f"reference/{self.paper}.csv: {len(found)} rows of {where}; there must be one")
        return found[0] if found else None

    @cached_property
    def _values(self) -> dict[tuple[str, str, str, str], list[str]]:
        made: dict[tuple[str, str, str, str], list[str]] = {}
        t = self.table
        for *key, value in zip(t["place"], t["row"], t["setting"], t["quantity"], t["value"]):
            made.setdefault(tuple(key), []).append(value)
        return made

    def value(self, place: str, row: str, variant: str, quantity: str) -> float:
        return float(self.text(place, row, variant, quantity))
