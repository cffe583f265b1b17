"""How ours is computed for claims about schedules (Figures 3, 4, 6 and 8) and about the memory of a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from repro.reporting.evaluate import Outcome
from repro.reporting.stats import number
from repro.reports import schedules
from repro.reports.compute import function
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.pipedream.stages import PIPEDREAM, pipeline

MEMORY = {"weights_bytes": "weights", "stash_bytes": "stashed versions", "activation_bytes": "activations"}


def _traced(group: Group, variant: str, number_of: Callable[[Summary], float | None], reason: str) -> Outcome:
    """number_of(run) for every seed of a variant with recorded intervals."""
    runs = {seed: run for seed, run in group.phase_runs(variant).items() if run.get("trace")}
    if not runs:
        return Outcome(reason=f"no recorded intervals for {variant}")
    found = {seed: number_of(run) for seed, run in runs.items()}
    values = {seed: float(value) for seed, value in found.items() if value is not None}
    return Outcome(values) if values else Outcome(reason=reason)


@function
def admitted(group: Group, setting: str, machine: int = 1) -> Outcome:
    """Forward passes of a machine (from 1) before its first backward pass."""
    return _traced(group, setting, lambda run: schedules.admitted(run, machine - 1), "no backward pass recorded")


@function
def interleaved_updates(group: Group, setting: str, machine: int) -> Outcome:
    """Backward passes of others between both passes of a minibatch on a machine (from 1), mean of the steady state."""

    def mean(run: Summary) -> float | None:
        counts = schedules.interleaved(run, machine - 1)
        return sum(counts) / len(counts) if counts else None

    return _traced(group, setting, mean, "no minibatch with both passes in the steady state")


@function
def updates_before(group: Group, setting: str, machine: int, minibatch: int) -> Outcome:
    """Updates of a machine (from 1) before its forward pass of a minibatch (from 1)."""
    reason = f"no forward pass of minibatch {minibatch} recorded"
    return _traced(group, setting, lambda run: schedules.updates_before(run, machine - 1, minibatch - 1), reason)


@function
def busy_share(group: Group, setting: str) -> Outcome:
    """Share of the machines' steady-state time in which they compute."""
    return _traced(group, setting, schedules.busy, "no steady state recorded")


@function
def machines_at_once(group: Group, setting: str) -> Outcome:
    """The most machines that compute at the same time."""
    return _traced(group, setting, schedules.at_once, "nothing computed")


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


def _in_flight(run: Summary, last: bool) -> float | None:
    """The most minibatches in flight at once in a replica of the first or last stage of a run with 1F1B."""
    entries = run.get("per_rank") or ()
    admits = run["strategy"] == PIPEDREAM and run["options"].get("in_flight") is None
    stage = max((entry["stage"] for entry in entries), default=0) if last else 0
    if not admits or pipeline(run).get("schedule") != "1f1b" or (last and not stage):
        return None
    known = [entry["in_flight"] for entry in entries if entry["stage"] == stage and "in_flight" in entry]
    return float(max(known)) if known else None


@function
def input_in_flight(group: Group) -> Outcome:
    """The most minibatches in flight in the input stage over NOAM."""

    def of_run(run: Summary) -> dict[str, float]:
        most = _in_flight(run, last=False)
        return {} if most is None else {"": most / pipeline(run)["noam"]}

    return _worst(group, of_run, "no run with 1F1B says what was in flight")


@function
def output_in_flight(group: Group) -> Outcome:
    """The most minibatches in flight in the output stage of runs with several stages."""

    def of_run(run: Summary) -> dict[str, float]:
        most = _in_flight(run, last=True)
        return {} if most is None else {"": most}

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
