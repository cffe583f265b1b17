"""How ours is computed for claims about schedules (Figures 3, 4, 6 and 8) and about the memory of a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from repro.reporting.evaluate import Outcome
from repro.reporting.stats import number
from repro.reports import schedules
from repro.reports.compute import function
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.pipedream.stages import PIPEDREAM, pipeline

MEMORY = ("weights_bytes", "stash_bytes", "activation_bytes")
COUNTED: dict[str, Callable[..., Any]] = {
    counted.__name__: counted
    for counted in (
        schedules.admitted,
        schedules.interleaved,
        schedules.updates_before,
        schedules.busy,
        schedules.at_once,
    )
}


@function
def traced(
    group: Group, setting: str, number: str, machine: int | None = None, minibatch: int | None = None
) -> Outcome:
    """What can be counted in a variant's recorded intervals (`COUNTED`; of several numbers the mean), one a seed.

    machine, minibatch: of which, from 1, where it is one's.
    """
    runs = {seed: run for seed, run in group.phase_runs(setting).items() if run.get("trace")}
    if not runs:
        return Outcome(reason=f"no recorded intervals for {setting}")
    at = [place - 1 for place in (machine, minibatch) if place is not None]
    found = {seed: COUNTED[number](run, *at) for seed, run in runs.items()}
    means = {seed: fmean(value) if isinstance(value, list) else float(value) for seed, value in found.items()
             if value not in (None, [])}  # fmt: skip
    return Outcome(means) if means else Outcome(reason=f"nothing recorded to count {number.replace('_', ' ')} in")


# --- memory


def _worst(group: Group, of_run: Callable[[Summary], Mapping[str, float]], reason: str) -> Outcome:
    """The number farthest from 1 of all that runs say (where -> number), one a seed."""
    worst: dict[int, tuple[float, str]] = {}
    for variant in group.covered():
        for seed, run in group.runs(variant).items():
            for where, value in of_run(run).items():
                if seed not in worst or abs(value - 1) > abs(worst[seed][0] - 1):
                    worst[seed] = value, f"{variant}{where}: {number(value)}"
    if not worst:
        return Outcome(reason=reason)
    return Outcome({seed: value for seed, (value, _) in worst.items()}, note=max(worst.values())[1])


@function
def in_flight(group: Group, stage: str) -> Outcome:
    """The most minibatches in flight at once in a replica, of runs with 1F1B: in the input stage over NOAM, in the
    output stage of several as they are."""

    def of_run(run: Summary) -> dict[str, float]:
        entries = run.get("per_rank") or ()
        admits = run["strategy"] == PIPEDREAM and run["options"].get("in_flight") is None
        which = max((entry["stage"] for entry in entries), default=0) if stage == "output" else 0
        if not admits or pipeline(run).get("schedule") != "1f1b" or (stage == "output" and not which):
            return {}
        known = [entry["in_flight"] for entry in entries if entry["stage"] == which and "in_flight" in entry]
        return {"": max(known) / (pipeline(run)["noam"] if stage == "input" else 1)} if known else {}

    return _worst(group, of_run, "no run with 1F1B says what was in flight")


@function
def memory_off(group: Group) -> Outcome:
    """Observed over predicted memory of a rank (weights, stashes and activations), the one farthest from 1."""

    def of_run(run: Summary) -> dict[str, float]:
        entries = enumerate(run.get("per_rank") or ())
        ratios = {f", stage {entry['stage'] + 1}, rank {rank}": memory_ratio(entry) for rank, entry in entries}
        return {where: ratio for where, ratio in ratios.items() if ratio is not None}

    return _worst(group, of_run, "no run says its memory a rank")


def memory_ratio(entry: Mapping) -> float | None:
    """Observed over predicted bytes of a rank; None where one of them is not known."""
    predicted = entry.get("predicted") or {}
    if any(entry.get(name) is None or predicted.get(name) is None for name in MEMORY):
        return None
    expected = sum(predicted[name] for name in MEMORY)
    return sum(entry[name] for name in MEMORY) / expected if expected else None
