"""Statistical cost: measured iterations to a target, relative to synchronous SGD."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from repro.answers.ranking.candidates import Candidate
from repro.answers.ranking.written import read_written
from repro.core import user_files
from repro.core.paths import reference_root
from repro.core.registry import TRAIN
from repro.records import reference
from repro.records.identity import Identity
from repro.records.variants import but_strategy

EXACT = ("dsync", "wfbp")  # strategies with synchronous SGD's updates


@dataclass(frozen=True)
class Cost:
    """ratios: iterations to a target over synchronous SGD's; infinity: only synchronous SGD reached it."""

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


@dataclass(frozen=True)
class Pair:
    """A training's iterations to a target over those of a synchronous one; where: the experiment."""

    strategy: str
    codec: str
    ratio: float
    where: str


def statistical_cost(candidate: Candidate) -> Cost | None:
    """A candidate's cost; None if it keeps synchronous SGD's updates, or the reference has no pair of runs."""
    if candidate.keeps == "synchronous":
        return None
    kind, options = candidate.in_virtual_time()
    return all_costs().get((kind.name, getattr(options, "codec", "none")))


@cache
def all_costs() -> Mapping[tuple[str, str], Cost]:
    """(strategy, codec) -> cost, by the table that `repro map` wrote: to compare 529 trainings takes longer than all
    predictions of an answer."""
    pairs: dict[tuple[str, str], list[Pair]] = {}
    for pair in read_written(Pair, "costs"):
        pairs.setdefault((pair.strategy, pair.codec), []).append(pair)
    return {
        key: Cost(tuple(each.ratio for each in own), tuple(sorted({each.where for each in own})))
        for key, own in pairs.items()
    }


def measured_pairs() -> list[Pair]:
    """The reference's trainings that differ from a synchronous one in the strategy alone."""
    trainings = [*reference_trainings()]
    shared = but_strategy([identity for identity, _ in trainings])
    reached: dict[tuple[Any, ...], dict[tuple[str, str], list[int | None]]] = {}
    for (identity, targets), setting in zip(trainings, shared, strict=True):
        key = identity.strategy.name, identity.strategy.options.get("codec") or "none"
        for target, at in targets.items():
            where = (*setting, identity.seed, target)
            reached.setdefault(where, {}).setdefault(key, []).append(at["iteration"] if at else None)
    pairs = []
    for where, strategies in reached.items():
        exact = [n for name in EXACT for n in strategies.get((name, "none"), []) if n]
        if not exact:
            continue
        base = statistics.median(exact)
        for key, iterations in strategies.items():
            if key[0] not in EXACT or key[1] != "none":
                ratios = [n / base if n else math.inf for n in iterations]
                pairs += [Pair(*key, ratio, f"{where[0]}/{where[1]}") for ratio in ratios]
    return pairs


def reference_trainings() -> Iterator[tuple[Identity, dict[str, Any]]]:
    """(identity, targets) of the reference's trainings with several workers and accuracies. Results are not validated,
    which would take most of an answer's time."""
    for paper in reference.papers():
        for row in reference.check(reference_root() / paper, ("runs",))["runs"]:
            if row["program"] == TRAIN and row["workers"] >= 2 and row["final"] is not None:
                record = user_files.parse_json(row["record"])
                yield Identity.model_validate(record["identity"]), record["result"].get("targets", {})
