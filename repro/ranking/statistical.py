"""What other updates cost in iterations: measured iterations to a target over those of synchronous SGD."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from repro.ranking.candidates import Candidate
from repro.records import reference
from repro.records.record import TrainResult

EXACT = ("dsync", "wfbp")  # whose updates are synchronous SGD's


@dataclass(frozen=True)
class Cost:
    """Iterations to a target over synchronous SGD's; infinity: not reached where synchronous SGD reached it."""

    ratios: tuple[float, ...]
    where: tuple[str, ...]  # experiments

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def short(self) -> str:
        reached = [ratio for ratio in self.ratios if not math.isinf(ratio)]
        span = f"x{min(reached):.2f} to x{max(reached):.2f}" if reached else "never"
        return span if len(reached) == len(self.ratios) else f"{span}, {len(reached)} of {len(self.ratios)}"

    def __str__(self) -> str:
        reached = sum(not math.isinf(ratio) for ratio in self.ratios)
        return f"{self.short} pairs" if reached < len(self.ratios) else f"{self.short} ({reached} pairs)"


def of(candidate: Candidate) -> Cost | None:
    """None for what keeps synchronous SGD's updates, and for what the reference says nothing of."""
    if candidate.keeps == "synchronous":
        return None
    name, options = candidate.simulated()
    return costs().get((name, options.get("codec", "none")))


@cache
def costs() -> Mapping[tuple[str, str], Cost]:
    """(strategy, codec) -> its cost, over all trainings that differ from one of synchronous SGD in the strategy."""
    reached: dict[tuple[Any, ...], dict[tuple[str, str], list[int | None]]] = {}
    for record in (record for paper in reference.papers() for record in reference.read(paper)):
        own, result = record.identity, record.result
        if not isinstance(result, TrainResult) or own.workers < 2:
            continue
        where = own.paper, own.experiment, own.scale, own.workers, own.batch, own.seed, own.testbed.name
        key = own.strategy.name, own.strategy.options.get("codec") or "none"
        for target, at in result.targets.items():
            reached.setdefault((*where, target), {}).setdefault(key, []).append(at.iteration if at else None)
    found_ratios: dict[tuple[str, str], tuple[list[float], set[str]]] = {}
    for where, strategies in reached.items():
        exact = [n for name in EXACT for n in strategies.get((name, "none"), []) if n]
        if not exact:
            continue
        base = statistics.median(exact)
        for key, iterations in strategies.items():
            if key[0] not in EXACT or key[1] != "none":
                ratios, places = found_ratios.setdefault(key, ([], set()))
                ratios += [n / base if n else math.inf for n in iterations]
                places.add(f"{where[0]}/{where[1]}")
    return {key: Cost(tuple(ratios), tuple(sorted(places))) for key, (ratios, places) in found_ratios.items()}
