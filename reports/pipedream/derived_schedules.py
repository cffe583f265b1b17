"""How ours is computed for claims about schedules (Figures 3, 4, 6 and 8) and about the memory of a stage."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

from repro.answers.claims.compute import function
from repro.answers.claims.evaluate import Outcome
from repro.answers.figures import schedules
from repro.answers.tables.loading import Summary
from repro.answers.tables.runs import Runs
from repro.reports.pipedream.stages import PIPEDREAM

MEMORY = ("weights_bytes", "stash_bytes", "activation_bytes")
COUNTED: dict[str, Callable[..., Any]] = {
    name: getattr(schedules, name) for name in ("admitted", "interleaved", "updates_before", "busy", "at_once")
}


@function
def traced(group: Runs, variant: str, number: str, machine: int | None = None, minibatch: int | None = None) -> Outcome:
    """What can be counted in a variant's recorded intervals (`COUNTED`; of several numbers the mean), one a seed.

    machine, minibatch: of which, from 1, where it is one's.
    """
    runs = {seed: run for seed, run in group.seeds(variant, breakdown=True).items() if run.get("trace")}
    if not runs:
        return Outcome(reason=f"no recorded intervals for {variant}")
    at = [place - 1 for place in (machine, minibatch) if place is not None]
    found = {seed: COUNTED[number](run, *at) for seed, run in runs.items()}
    means = {seed: fmean(value) if isinstance(value, list) else float(value) for seed, value in found.items()
             if value not in (None, [])}  # fmt: skip
    return Outcome(means) if means else Outcome(reason=f"nothing recorded to count {number.replace('_', ' ')} in")


# --- memory


def _worst(group: Runs, of_run: Callable[[Summary], list[float]], reason: str) -> Outcome:
    """The number farthest from 1 of all that runs say, one a seed."""
    numbers = {seed: [number for run in runs for number in of_run(run)] for seed, runs in group.by_seed().items()}
    values = {seed: max(each, key=lambda value: abs(value - 1)) for seed, each in numbers.items() if each}
    return Outcome(values) if values else Outcome(reason=reason)


@function
def in_flight(group: Runs, stage: str) -> Outcome:
    """The most minibatches in flight at once in a replica, of runs with 1F1B: in the input stage over NOAM, in the
    output stage of several as they are."""

    def of_run(run: Summary) -> list[float]:
        of, ranks = run.get("pipeline") or {}, run.get("per_rank") or ()
        last = max((rank["stage"] for rank in ranks), default=0)
        admits = run["strategy"] == PIPEDREAM and run["options"].get("in_flight") is None
        if not admits or of.get("schedule") != "1f1b" or (stage == "output" and not last):
            return []
        which, over = (last, 1) if stage == "output" else (0, of["noam"])
        return [max(rank["in_flight"] for rank in ranks if rank["stage"] == which) / over]

    return _worst(group, of_run, "no run with 1F1B says what was in flight")


@function
def memory_off(group: Runs) -> Outcome:
    """Observed over predicted memory of a rank (weights, stashes and activations), the one farthest from 1."""

    def of_run(run: Summary) -> list[float]:
        ranks = [rank for rank in run.get("per_rank") or () if rank.get("predicted")]
        return [sum(rank[name] for name in MEMORY) / sum(rank["predicted"][name] for name in MEMORY) for rank in ranks]

    return _worst(group, of_run, "no run says its memory a rank")
