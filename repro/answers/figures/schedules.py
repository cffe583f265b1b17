"""Schedules of pipelines from recorded traces: forward and backward passes as boxes, and statistics of them.

A pass of a minibatch may be recorded as several intervals, one a block; adjacent ones become one box. Minibatches count
from 0 in summaries and from 1 in the paper's pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro.core.phases import MAIN_LINE
from repro.records.record import Found

FORWARD, BACKWARD = "forward", "backward"
PASSES = (FORWARD, BACKWARD)
COMPUTING = (*PASSES, "update")
CLOSE = 1e-9  # seconds: a box that starts this soon after another is adjacent to it


@dataclass(frozen=True)
class Box:
    """An interval in seconds on a machine's main line or another line; minibatch: None if not recorded."""

    rank: int
    line: str
    name: str
    minibatch: int | None
    start: float
    end: float


def trace_boxes(trace: Sequence[Mapping[str, Any]]) -> list[Box]:
    """All intervals as boxes, sorted by rank, line (main first) and time; the pieces of a pass are one box."""
    merged: list[Box] = []
    for i in sorted(trace, key=lambda i: (i["rank"], i["line"] != MAIN_LINE, i["line"], i["start"], i["end"])):
        if i["end"] <= i["start"]:
            continue
        each = Box(i["rank"], i["line"], i["name"], i.get("minibatch"), i["start"], i["end"])
        last = merged[-1] if merged else None
        if last and _same(last, each):
            merged[-1] = replace(last, end=each.end)
        else:
            merged.append(each)
    return merged


def _same(last: Box, box: Box) -> bool:
    """Whether both are pieces of one pass; the pieces of a numbered pass may have a gap (of a real machine)."""
    alike = (last.rank, last.line, last.name, last.minibatch) == (box.rank, box.line, box.name, box.minibatch)
    return alike and (box.start <= last.end + CLOSE or box.minibatch is not None)


def main_passes(run: Found, rank: int | None = None) -> list[Box]:
    """Forward and backward passes on main lines, of one machine or of all; a pass that waited is one box."""
    merged: list[Box] = []
    for box in trace_boxes(run.training.trace):
        if box.line == MAIN_LINE and box.name in PASSES and rank in (None, box.rank):
            if merged and _same(merged[-1], box):
                box = replace(merged.pop(), end=box.end)
            merged.append(box)
    return merged


def traced_ranks(run: Found) -> list[int]:
    """The machines with recorded passes."""
    return sorted({box.rank for box in main_passes(run)})


def admitted(run: Found, rank: int = 0) -> int | None:
    """Forward passes of a machine before its first backward pass; None without a backward pass."""
    names = [box.name for box in main_passes(run, rank)]
    return names.index(BACKWARD) if BACKWARD in names else None


def interleaved(run: Found, rank: int) -> list[int]:
    """For each minibatch in steady state, the backward passes of others between its forward and backward pass.

    Steady state: minibatches that start after the machine's first backward pass.
    """
    started: dict[int, int] = {}
    backwards, between = 0, []
    for box in main_passes(run, rank):
        if box.minibatch is None:
            continue
        if box.name == BACKWARD:
            if box.minibatch in started:
                between.append(backwards - started[box.minibatch])
            backwards += 1
        elif backwards:
            started[box.minibatch] = backwards
    return between


def updates_before(run: Found, rank: int, minibatch: int) -> int | None:
    """Backward passes of a machine before the forward pass of a minibatch (from 0); None without that pass."""
    of_rank = main_passes(run, rank)
    place = next((i for i, b in enumerate(of_rank) if (b.name, b.minibatch) == (FORWARD, minibatch)), None)
    return None if place is None else sum(box.name == BACKWARD for box in of_rank[:place])


def steady_state(run: Found) -> tuple[float, float] | None:
    """(start, end) of the steady state: from when every machine has begun a backward pass, while every machine has
    forward passes left. None if that is no time.
    """
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for box in main_passes(run):  # sorted by time, for each machine
        if box.name == BACKWARD:
            first.setdefault(box.rank, box.start)
        else:
            last[box.rank] = box.start
    if not first or first.keys() != last.keys():
        return None
    begin, end = max(first.values()), min(last.values())
    return (begin, end) if end > begin else None


def busy(run: Found) -> float | None:
    """The share of their steady-state time in which the machines compute."""
    if (window := steady_state(run)) is None:
        return None
    begin, end = window
    computing = [box for box in trace_boxes(run.training.trace) if box.line == MAIN_LINE and box.name in COMPUTING]
    spent = sum(max(0.0, min(box.end, end) - max(box.start, begin)) for box in computing)
    return spent / ((end - begin) * len(traced_ranks(run)))


def at_once(run: Found) -> int:
    """The largest number of machines that compute a pass at the same time."""
    moments = [(box.start + CLOSE, 1) for box in main_passes(run)] + [(box.end - CLOSE, -1) for box in main_passes(run)]
    now = most = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most
