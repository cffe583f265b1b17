"""A line plot of characters, for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from repro.core.terminal import one_line, style_text

MARKS = "ox+*#@%&"
STYLES = ("blue", "red", "green", "magenta", "cyan", "yellow")
AXIS = 9  # characters of the vertical axis and its labels
Line = Sequence[tuple[float, float]]


class Range(NamedTuple):
    """The limits of an axis."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Range:
        low, high = min(values), max(values)
        beside = 0 if high > low else abs(low) / 10 or 1
        return cls(low - beside, high + beside)

    def place(self, value: float, cells: int) -> int:
        """The index of a value's cell, from 0."""
        return round((value - self.low) / (self.high - self.low) * (cells - 1))


def plot_text(lines: Mapping[str, Line], x: str, y: str, width: int = 80, height: int = 24) -> str:
    """Plot lines by name, each of (x, y) points in the order of x; x, y: titles of the axes.

    Marks show points, dots the lines between them. A cell shows the first line that crosses it.
    """
    points = [point for line in lines.values() for point in line]
    if not points:
        return "nothing to plot"
    columns, rows = max(20, width - AXIS), max(5, height - len(lines) - 4)
    across, up = Range.of([point[0] for point in points]), Range.of([point[1] for point in points])
    cells = [[" "] * columns for _ in range(rows)]
    for number, line in enumerate(lines.values()):
        places = [(across.place(a, columns), rows - 1 - up.place(b, rows)) for a, b in line]
        for (left, top), (right, bottom) in pairwise(places):
            for column in range(left + 1, right):
                row = round(top + (bottom - top) * (column - left) / (right - left))
                if cells[row][column] == " ":
                    cells[row][column] = _shown(".", number)
        for column, row in places:
            if cells[row][column] in (" ", *(_shown(".", each) for each in range(len(lines)))):
                cells[row][column] = _shown(_mark(number), number)
    labels = {0: f"{up.high:.4g}", rows // 2: f"{(up.high + up.low) / 2:.4g}", rows - 1: f"{up.low:.4g}"}
    drawn = [f"{labels.get(row, ''):>{AXIS - 2}} |{''.join(marks)}".rstrip() for row, marks in enumerate(cells)]
    ends = f"{across.low:.4g}", f"{across.high:.4g}"
    drawn.append(" " * (AXIS - 1) + "+" + "-" * columns)
    drawn.append(" " * AXIS + ends[0] + x.center(columns - len(ends[0]) - len(ends[1])) + ends[1])
    legend = [f"  {_shown(_mark(number), number)} {one_line(name)}" for number, name in enumerate(lines)]
    return "\n".join([one_line(y), *drawn, *legend])


def _mark(number: int) -> str:
    return MARKS[number % len(MARKS)]


def _shown(text: str, number: int) -> str:
    return style_text(text, STYLES[number % len(STYLES)], sys.stdout)
