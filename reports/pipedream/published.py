"""The paper's own numbers (reference/pipedream.csv), looked up by place, row, variant and quantity."""

from __future__ import annotations

from repro.reports.pipedream.experiments import Row
from repro.reports.reference import Quoted

OVER_ONE, OVER_BSP, REDUCTION = (
    "speed-up over 1 machine",
    "speed-up over BSP",
    "communication reduction over BSP",
)
OVERHEAD = "communication overhead"
# How variants are called in the table.
WRITTEN = {"bsp": "BSP", "pipedream": "PipeDream", "straight": "straight pipeline", "asp": "ASP"}


class Published(Quoted):
    """The reference table; every number on the page that is the paper's comes from here."""

    paper = "pipedream"

    def row(self, row: Row, variant: str, quantity: str) -> str | None:
        """What the paper prints of a row: in Table 1, else in section 5.2 or 5.3 (Figure 13)."""
        for place in ("Table 1", "Section 5.2", "Figure 13"):
            if (found := self.maybe(place, row.label, WRITTEN.get(variant, variant), quantity)) is not None:
                return found
        return None

    def number(self, row: Row, variant: str, quantity: str) -> float | None:
        """The same as a number; shares as shares, not in percent."""
        if (found := self.row(row, variant, quantity)) is None:
            return None
        return float(found) / (100 if quantity in (REDUCTION, OVERHEAD) else 1)

    def configuration(self, row: Row) -> str | None:
        return self.row(row, "pipedream", "configuration")
