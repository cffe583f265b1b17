"""The paper's own numbers (reference/eagersgd.csv), looked up by place, row, setting and quantity."""

from __future__ import annotations

from functools import cache

from repro.reports.eagersgd.results import PAPER
from repro.reports.reference import Quoted, read

SPEEDUP = "speed-up over "  # a quantity; what it is over comes after it


class Published(Quoted):
    """Every number on the page that is the paper's comes from here."""

    paper = PAPER

    def table1(self, task: str, quantity: str) -> int:
        return int(self.text("Table 1", task, "all", quantity))


@cache
def published() -> Published:
    return Published(read(PAPER))
