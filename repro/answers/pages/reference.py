"""A paper's numbers (`paper_configs/reference/<paper>.csv`), each with its place and source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError
from repro.records import paper_numbers

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Quoted:
    """A paper's reference table; every number on a page that is the paper's comes from here."""

    paper: str

    @cached_property
    def table(self) -> pd.DataFrame:
        """As text: place, row, variant, quantity, value, unit, source."""
        import pandas as pd

        return pd.DataFrame(paper_numbers.table(self.paper), columns=[*paper_numbers.COLUMNS])

    def maybe(self, *place: str) -> str | None:
        """A value as the paper prints it, by place, row, variant and quantity; None where it prints nothing."""
        found = self._values.get(place, ())
        if len(found) > 1:
            raise InputError(f"reference/{self.paper}.csv: {len(found)} rows of {', '.join(place)}; there must be one")
        return found[0] if found else None

    def text(self, *place: str) -> str:
        """The same; a missing row is a mistake in the table."""
        if (found := self.maybe(*place)) is None:
            raise InputError(f"reference/{self.paper}.csv: no row of {', '.join(place)}")
        return found

    def value(self, *place: str) -> float:
        return float(self.text(*place))

    @cached_property
    def _values(self) -> dict[Any, list[str]]:
        return self.table.groupby([*paper_numbers.COLUMNS[:4]])["value"].agg(list).to_dict()


@cache
def quoted(paper: str) -> Quoted:
    """Read once."""
    return Quoted(paper)
