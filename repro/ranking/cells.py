"""What `repro map` finds as rows of a file: the map's cells, published throughputs beside predicted ones, headlines.

Without PyTorch: pages are built of these files alone.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations, pairwise
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter

from repro.answers.claims.evidence import validation
from repro.ranking.candidates import ANY, SYNCHRONOUS, every

T = TypeVar("T")
BORDERS = 6  # that are named in words: the longest


def as_csv(kind: type, rows: Sequence[Any]) -> str:
    """Rows of a dataclass."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({n: f"{v:.6g}" if isinstance(v, float) else v for n, v in asdict(row).items()})
    return text.getvalue()


def from_csv(kind: type[T], text: str) -> list[T]:
    """The same again; an empty entry is None."""
    rows = [{name: entry or None for name, entry in row.items()} for row in csv.DictReader(io.StringIO(text))]
    return TypeAdapter(list[kind]).validate_python(rows)  # type: ignore[valid-type]


@dataclass(frozen=True)
class Cell:
    """The fastest of a kind in a setting, and by which share the second is slower. by: form, or simulation of both;
    agrees: whether both have the same first."""

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
    """A paper's headline in the map. seconds: of its own strategy, the candidate; synchronous, any: the fastest of each
    kind; stops_bits: bandwidth from which on its strategy does not pay; None: it does not here, infinity: it always
    does; page: the paper's."""

    page: str
    paper: str
    model: str
    workers: int
    gbit: float
    ratio: float
    candidate: str
    seconds: float
    synchronous: str
    synchronous_s: float
    any: str
    any_s: float
    stops_bits: float | None


def ratio_error() -> float:
    """By how much, in the 95th percentile, a ratio of two simulated steps is off from that of the observed ones."""
    runs: dict[tuple[str, float], list[float]] = {}
    for step in validation(None):
        runs.setdefault((step["run"], step["bytes"]), []).append(step["observed_s"] / step["simulated_s"])
    off = [max(a / b, b / a) - 1 for own in runs.values() for a, b in combinations(own, 2)]
    return float(np.quantile(off, 0.95)) if off else 0.0


@dataclass(frozen=True)
class Region:
    """Where a strategy is the fastest of a kind: number of cells, median margin, and the ranges in which they lie."""

    best: str
    cells: int
    margin: float
    gbit: tuple[float, float]
    ratio: tuple[float, float]
    workers: tuple[int, int]
    late: tuple[float, float]


def regions(found: Sequence[Cell], kind: str) -> list[Region]:
    """The largest first."""
    own: dict[str, list[Cell]] = {}
    for cell in found:
        if cell.kind == kind:
            own.setdefault(cell.best, []).append(cell)
    made_of = []
    for best, some in own.items():
        margin = statistics.median(cell.margin for cell in some)
        ends = (_ends([getattr(cell, axis) for cell in some]) for axis in ("gbit", "ratio", "workers", "late"))
        made_of.append(Region(best, len(some), margin, *ends))
    return sorted(made_of, key=lambda region: -region.cells)


def neighbours(found: Sequence[Cell]) -> Iterator[tuple[str, Cell, Cell]]:
    """(along, cell, the next one with more bandwidth or ratio), where they have another fastest."""
    by_place = {cell.place: cell for cell in found}
    for along in ("gbit", "ratio"):
        values = sorted({getattr(cell, along) for cell in found})
        after = dict(pairwise(values))
        for cell in found:
            if (value := after.get(getattr(cell, along))) is not None:
                beside = by_place[replace(cell, **{along: value}).place]  # type: ignore[arg-type]
                if beside.best != cell.best:
                    yield along, cell, beside


@dataclass(frozen=True)
class Border:
    """Where, with more bandwidth or more computation to communication, another strategy is the fastest.

    cells: pairs of neighbours that it lies between; at: its middle in the median; ends: where it lies; margin: by which
    the fastest leads there, in the median.
    """

    along: str
    before: str
    after: str
    cells: int
    at: float
    ends: tuple[float, float]
    margin: float


def borders(found: Sequence[Cell], kind: str) -> list[Border]:
    """Those between two strategies, the longest first."""
    between: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for along, cell, beside in neighbours([cell for cell in found if cell.kind == kind]):
        middle = (getattr(cell, along) * getattr(beside, along)) ** 0.5
        margin = max(cell.margin, beside.margin)
        between.setdefault((along, cell.best, beside.best), []).append((middle, margin))
    made_of = []
    for (along, before, after), places in between.items():
        middles = [middle for middle, _ in places]
        margin = statistics.median(margin for _, margin in places)
        made_of.append(Border(along, before, after, len(places), statistics.median(middles), _ends(middles), margin))
    return sorted(made_of, key=lambda border: -border.cells)


def border_words(border: Border) -> str:
    """A border in a sentence."""
    before, after = (every()[name].label for name in (border.before, border.after))
    of, unit = {"gbit": ("bandwidth", " Gbit/s"), "ratio": ("computation to communication", "")}[border.along]
    low, high = border.ends
    where = (
        f"at {low:.2g}{unit}" if low == high else f"from {low:.2g} to {high:.2g}{unit}, {border.at:.2g} in the median"
    )
    return (
        f"With more {of}, {before} gives way to {after} {where} ({border.cells} cells; the lead is {border.margin:.0%})"
    )


def _ends(values: Sequence[Any]) -> Any:
    return min(values), max(values)


def words(found: Sequence[Cell]) -> str:
    """Where which strategy is the fastest, a line each."""
    lines = []
    for kind, title in (
        (SYNCHRONOUS, "With the updates of synchronous SGD"),
        (ANY, "Compressed and stale gradients included"),
    ):
        lines.append(f"{title}:")
        for one in regions(found, kind):
            lines.append(
                f"  {every()[one.best].label}: {one.cells} cells, {one.gbit[0]:g} to {one.gbit[1]:g} Gbit/s, "
                f"computation {one.ratio[0]:g} to {one.ratio[1]:g} times communication, "
                f"{one.workers[0]} to {one.workers[1]} workers, late by {one.late[0]:g} to {one.late[1]:g}; "
                f"the second is {one.margin:.0%} slower in the median"
            )
        lines += [f"  {border_words(one)}" for one in borders(found, kind)[:BORDERS]]
    return "\n".join(lines)
