"""The numbers that a paper prints (`paper_configs/reference/<paper>.csv`), with place and source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError
from repro.records import paper_numbers
from repro.records.filters import select_rows

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Quoted:
    """The reference table of a paper, the source of all its numbers on pages."""

    paper: str

    @cached_property
    def table(self) -> pd.DataFrame:
        """The columns place, row, variant, quantity, value, unit, source, as text."""
        import pandas as pd

        return pd.DataFrame(paper_numbers.read_numbers(self.paper), columns=[*paper_numbers.COLUMNS])

    def where(self, **columns: Any) -> pd.DataFrame:
        """The rows with these values, `quantity="speed-up"`, or with one of several."""
        return select_rows(self.table, columns)

    def maybe(self, *place: str) -> str | None:
        """A value as printed, by place, row, variant and quantity; None if there is none."""
        values = self._values.get(place, ())
        if len(values) > 1:
            raise InputError(f"reference/{self.paper}.csv: {len(values)} rows of {', '.join(place)}; there must be one")
        return values[0] if values else None

    def text(self, *place: str) -> str:
        """Like `maybe`; InputError if there is none."""
        if (value := self.maybe(*place)) is None:
            raise InputError(f"reference/{self.paper}.csv: no row of {', '.join(place)}")
        return value

    def value(self, *place: str) -> float:
        return float(self.text(*place))

    @cached_property
    def _values(self) -> dict[Any, list[str]]:
        return self.table.groupby([*paper_numbers.COLUMNS[:4]])["value"].agg(list).to_dict()


@cache
def quoted(paper: str) -> Quoted:
    """The paper's table, read once."""
    return Quoted(paper)
