"""Rows of the CSV files that `repro map` writes (cells of the map, headlines), and the map's regions and borders.

It does not import PyTorch: pages are built from these files alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from repro.answers.claims.stats import format_percent
from repro.answers.ranking.candidates import ANY, SYNCHRONOUS, read_candidates

BORDERS = 6  # the number of borders described in words: the longest
ADVISED = 0.05  # of the cells: the smallest region of which advice in words speaks


@dataclass(frozen=True)
class Cell:
    """What to use in one setting: of a comparison the simplest strategy that no other one replaces.

    second: the fastest other strategy. margin: the share by which it is slower, 0 if it is faster. by: "form", or
    "simulation" of the two best; agrees: whether both name the same strategy.
    """

    gbit: float
    ratio: float
    workers: int
    late: float
    kind: str
    best: str
    seconds: float
    second: str
    margin: float
    by: str = "form"
    agrees: bool = True

    @property
    def place(self) -> tuple[float, float, int, float, str]:
        return self.gbit, self.ratio, self.workers, self.late, self.kind


@dataclass(frozen=True)
class Placed:
    """A paper's headline in the map; page: the paper's.

    late: delay of a worker, a share of its computation. seconds: of the paper's strategy, `candidate`. synchronous,
    any: the fastest of each comparison. stops_bits: the bandwidth (bits/s) from which on the strategy does not pay;
    None: it does not pay here; infinity: it always does.
    """

    page: str
    paper: str
    model: str
    workers: int
    gbit: float
    ratio: float
    late: float
    candidate: str
    seconds: float
    synchronous: str
    synchronous_s: float
    any: str
    any_s: float
    stops_bits: float | None


@dataclass(frozen=True)
class Region:
    """The cells in which a strategy is to be used: their number, median margin and ranges."""

    best: str
    cells: int
    margin: float
    gbit: tuple[float, float]
    ratio: tuple[float, float]
    workers: tuple[int, int]
    late: tuple[float, float]


def find_regions(cells: Sequence[Cell], kind: str) -> list[Region]:
    """The regions of a comparison, the largest first."""
    by_best: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.kind == kind:
            by_best.setdefault(cell.best, []).append(cell)
    regions = []
    for best, won in by_best.items():
        margin = statistics.median(cell.margin for cell in won)
        ranges = (_range([getattr(cell, axis) for cell in won]) for axis in ("gbit", "ratio", "workers", "late"))
        regions.append(Region(best, len(won), margin, *ranges))
    return sorted(regions, key=lambda region: -region.cells)


def describe_advice(cells: Sequence[Cell], kind: str) -> str:
    """The large regions of a comparison, each with the axes of which it covers a part, in words."""
    compared = [cell for cell in cells if cell.kind == kind]
    units = {"ratio": "computation {} times communication", "gbit": "{} Gbit/s", "workers": "{} workers"}
    whole = {axis: _range([getattr(cell, axis) for cell in compared]) for axis in units}
    parts: list[str] = []
    left = len(compared)
    for region in find_regions(cells, kind):
        if region.cells >= ADVISED * len(compared):
            left -= region.cells
            ends = {axis: getattr(region, axis) for axis in units}
            where = ", ".join(
                units[axis].format(" to ".join(dict.fromkeys(f"{end:g}" for end in ends[axis])))
                for axis in units
                if ends[axis] != whole[axis]
            )
            of_all = (
                f"{region.cells} of {len(compared)} cells"
                if parts
                else f"{region.cells} of the map's {len(compared)} cells"
            )
            parts.append(f"{read_candidates()[region.best].label} in {of_all}" + (f" ({where})" if where else ""))
    return "; ".join([*parts, *([f"others in {left}"] if left else [])])


def differing_neighbours(cells: Sequence[Cell]) -> Iterator[tuple[str, Cell, Cell]]:
    """(axis, cell, the next cell with more bandwidth or ratio) wherever the fastest strategies differ."""
    by_place = {cell.place: cell for cell in cells}
    for axis in ("gbit", "ratio"):
        values = sorted({getattr(cell, axis) for cell in cells})
        after = dict(pairwise(values))
        for cell in cells:
            if (value := after.get(getattr(cell, axis))) is not None:
                beside = by_place[replace(cell, **{axis: value}).place]  # type: ignore[arg-type]
                if beside.best != cell.best:
                    yield axis, cell, beside


@dataclass(frozen=True)
class Border:
    """Where, with more bandwidth or more computation to communication, another strategy is to be used.

    cells: the number of pairs of neighbours that it separates; at, ends: the median and range of where it lies between
    them; margin: the median lead of the fastest there.
    """

    along: str
    before: str
    after: str
    cells: int
    at: float
    ends: tuple[float, float]
    margin: float


def find_borders(cells: Sequence[Cell], kind: str) -> list[Border]:
    """The borders of a comparison, the longest first."""
    between: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for axis, cell, beside in differing_neighbours([cell for cell in cells if cell.kind == kind]):
        middle = (getattr(cell, axis) * getattr(beside, axis)) ** 0.5
        between.setdefault((axis, cell.best, beside.best), []).append((middle, max(cell.margin, beside.margin)))
    borders = []
    for names, pairs in between.items():
        middles, margins = zip(*pairs)
        at, margin = statistics.median(middles), statistics.median(margins)
        borders.append(Border(*names, len(pairs), at, _range(middles), margin))
    return sorted(borders, key=lambda border: -border.cells)


def border_words(border: Border) -> str:
    """A border in a sentence."""
    before, after = (read_candidates()[name].label for name in (border.before, border.after))
    quantity, unit = {"gbit": ("bandwidth", " Gbit/s"), "ratio": ("computation to communication", "")}[border.along]
    low, high = border.ends
    where = (
        f"at {low:.2g}{unit}" if low == high else f"from {low:.2g} to {high:.2g}{unit}, {border.at:.2g} in the median"
    )
    lead = f"{border.cells} cells; the lead is {format_percent(border.margin)}"
    return f"With more {quantity}, {before} gives way to {after} {where} ({lead})"


def _range(values: Sequence[Any]) -> Any:
    return min(values), max(values)


def describe_map(cells: Sequence[Cell]) -> str:
    """The regions and the longest borders, one a line."""
    lines = []
    for kind, title in (
        (SYNCHRONOUS, "With the updates of synchronous SGD"),
        (ANY, "Compressed and stale gradients included"),
    ):
        lines.append(f"{title}:")
        for region in find_regions(cells, kind):
            lines.append(
                f"  {read_candidates()[region.best].label}: {region.cells} cells, "
                f"{region.gbit[0]:g} to {region.gbit[1]:g} Gbit/s, "
                f"computation {region.ratio[0]:g} to {region.ratio[1]:g} times communication, "
                f"{region.workers[0]} to {region.workers[1]} workers, "
                f"late by {region.late[0]:g} to {region.late[1]:g}; "
                f"the second is {format_percent(region.margin)} slower in the median"
            )
        lines += [f"  {border_words(border)}" for border in find_borders(cells, kind)[:BORDERS]]
    return "\n".join(lines)
