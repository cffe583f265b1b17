"""Recorded intervals of machines that work on minibatches: passes as boxes, and what can be counted in them.

A pass of a minibatch may be recorded as one interval or as one a block; neighbours that are the same pass are one box.
Minibatches count from 0 in summaries and from 1 in the paper's pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro.answers.tables import foreign
from repro.answers.tables.loading import Summary

FORWARD, BACKWARD = "forward", "backward"
PASSES = (FORWARD, BACKWARD)
COMPUTING = (*PASSES, "update")
MAIN = "main"
CLOSE = 1e-9  # seconds: what begins within it of another's end follows it directly


@dataclass(frozen=True)
class Box:
    """One stretch of a machine's main line, or of another line: seconds; minibatch None where nothing says it."""

    rank: int
    line: str
    name: str
    minibatch: int | None
    start: float
    end: float


def boxes(trace: Sequence[Mapping[str, Any]]) -> list[Box]:
    """All intervals as boxes in order of rank, line (main first) and time; the pieces of one pass are one box."""
    found: list[Box] = []
    for i in sorted(trace, key=lambda i: (i["rank"], i["line"] != MAIN, i["line"], i["start"], i["end"])):
        if i["end"] <= i["start"]:
            continue
        line, name = foreign.taken([i["line"], i["name"]])
        one = Box(i["rank"], line, name, i.get("minibatch"), i["start"], i["end"])
        last = found[-1] if found else None
        if last and _same(last, one):
            found[-1] = replace(last, end=one.end)
        else:
            found.append(one)
    return found


def _same(last: Box, one: Box) -> bool:
    """Are both pieces of one pass? Between those of a numbered one may be a gap (a real machine's own), not others'."""
    alike = (last.rank, last.line, last.name, last.minibatch) == (one.rank, one.line, one.name, one.minibatch)
    return alike and (one.start <= last.end + CLOSE or one.minibatch is not None)


def passes(run: Summary, rank: int | None = None) -> list[Box]:
    """Forward and backward passes on main lines, of one machine or of all; one that had to wait inside is one."""
    found: list[Box] = []
    for box in boxes(run.get("trace") or ()):
        if box.line == MAIN and box.name in PASSES and rank in (None, box.rank):
            if found and _same(found[-1], box):
                box = replace(found.pop(), end=box.end)
            found.append(box)
    return found


def ranks(run: Summary) -> list[int]:
    """The machines that computed something in the recorded time."""
    return sorted({box.rank for box in passes(run)})


def admitted(run: Summary, rank: int = 0) -> int | None:
    """Forward passes of a machine before its first backward pass; None where none of the two was recorded."""
    names = [box.name for box in passes(run, rank)]
    return names.index(BACKWARD) if BACKWARD in names else None


def interleaved(run: Summary, rank: int) -> list[int]:
    """For each minibatch whose both passes were recorded: backward passes of others between them, in steady state.

    Steady state: minibatches that came in after the machine's first backward pass.
    """
    of_rank = passes(run, rank)
    begun: dict[int, int] = {}
    backwards, found = 0, []
    for box in of_rank:
        if box.minibatch is None:
            continue
        if box.name == FORWARD:
            if backwards:
                begun[box.minibatch] = backwards
        else:
            if box.minibatch in begun:
                found.append(backwards - begun[box.minibatch])
            backwards += 1
    return found


def updates_before(run: Summary, rank: int, minibatch: int) -> int | None:
    """Backward passes of a machine before the forward pass of a minibatch (from 0); None where there is none."""
    of_rank = passes(run, rank)
    place = next((i for i, b in enumerate(of_rank) if (b.name, b.minibatch) == (FORWARD, minibatch)), None)
    return None if place is None else sum(box.name == BACKWARD for box in of_rank[:place])


def steady(run: Summary) -> tuple[float, float] | None:
    """(from, to) of the steady state: the last machine's first backward pass has come through to the first machine,
    and the first machine has forward passes left. None where that is no time at all.
    """
    first: dict[int, float] = {}
    last: dict[int, float] = {}
    for box in passes(run):  # in order of time, of each machine
        if box.name == BACKWARD:
            first.setdefault(box.rank, box.start)
        else:
            last[box.rank] = box.start
    if not first or first.keys() != last.keys():
        return None
    begin, end = max(first.values()), min(last.values())
    return (begin, end) if end > begin else None


def busy(run: Summary) -> float | None:
    """Share of the machines' steady-state time in which they compute."""
    if (window := steady(run)) is None:
        return None
    begin, end = window
    computing = [box for box in boxes(run["trace"]) if box.line == MAIN and box.name in COMPUTING]
    spent = sum(max(0.0, min(box.end, end) - max(box.start, begin)) for box in computing)
    return spent / ((end - begin) * len(ranks(run)))


def at_once(run: Summary) -> int:
    """The most machines that compute a forward or backward pass at the same time."""
    moments = [(box.start + CLOSE, 1) for box in passes(run)] + [(box.end - CLOSE, -1) for box in passes(run)]
    now = most = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most
