"""What a benchmark is to reach: a goal stands beside its measure(), a result says whether it was met."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple


class Goal(NamedTuple):
    """what: is compared with the bound; at_least: where more is better."""

    what: str
    bound: float
    at_least: bool = False

    def of(self, value: float | None, spread: Sequence[float] | None = None) -> dict[str, Any]:
        """{what, value, bound, at_least, met, spread}; a value of None was not measured, and is not met."""
        met = value is not None and (value >= self.bound if self.at_least else value <= self.bound)
        return {**self._asdict(), "value": value, "met": met, "spread": list(spread) if spread else None}


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """{median, min, max} of ours over theirs, of neighbouring turns: a slow minute of the machine is in both."""
    each = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return {"median": statistics.median(each), "min": min(each), "max": max(each)}


def of_ratio(goal: Goal, found: dict[str, float]) -> dict[str, Any]:
    """A goal on the median of a `ratio`."""
    return goal.of(found["median"], (found["min"], found["max"]))


def table(found: Sequence[dict[str, Any]]) -> str:
    """A line a goal; empty where there are none."""
    lines = []
    for goal in found:
        value = "not measured" if goal["value"] is None else f"{goal['value']:.3g}"
        spread = "" if goal["spread"] is None else " ({:.3g} to {:.3g})".format(*goal["spread"])
        bound = f"goal at {'least' if goal['at_least'] else 'most'} {goal['bound']:g}"
        lines.append(f"  {'met    ' if goal['met'] else 'NOT MET'} {goal['what']}: {value}{spread}, {bound}")
    return "\n".join(lines)
