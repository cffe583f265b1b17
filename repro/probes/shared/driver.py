"""The driver of probes that time communication: settings on groups of the first ranks, and calls in turns.

    turn       0 (not counted)   1       2
    in order   A B C             A B C   A B C
    alternate  A B C             C B A   A B C

Calls take turns so that other load on the machine slows all alike; the first turn touches fresh pages and connections.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from repro import probes
from repro.fabric.base import Fabric
from repro.probes.shared.steps import make_subgroups

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def run_in_turns(
    calls: Mapping[K, Callable[[], T]],
    turns: int,
    uncounted: int = 1,
    alternate: bool = False,
    after_turn: Callable[[int], None] = lambda turn: None,
) -> dict[K, list[T]]:
    """What each call returned in the counted turns. after_turn: called with each turn's number."""
    counted: dict[K, list[T]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(uncounted + turns):
        for name in names[::-1] if alternate and turn % 2 else names:
            value = calls[name]()
            if turn >= uncounted:
                counted[name].append(value)
        after_turn(turn)
    return counted


def measure_settings(
    fabric: Fabric, settings: Sequence[tuple[int, *tuple[Any, ...]]], measure: Callable[..., list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The rows of `measure(group, *setting)` of all settings (ranks, *setting), whose first ranks are the group.

    Every rank of `fabric` calls it; a rank that is in no group has no rows.
    """
    groups = make_subgroups(fabric, [ranks for ranks, *_ in settings])
    rows = []
    for number, (ranks, *setting) in enumerate(settings, 1):
        if group := groups[ranks]:
            rows += measure(group, *setting)
        fabric.exchange(None)  # a rank outside the group waits here without keeping its core busy
        probes.report_progress(number, fabric.rank)
    for ranks, group in groups.items():
        if group and ranks != fabric.size:
            group.close()
    return rows
