"""How ours is computed for PipeDream's claims about Figures 1 to 8, weight versions, memory, what was measured here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from repro.reporting.stats import number, spread
from repro.reports import schedules
from repro.reports.compute import Outcome, _paired, final, function, probe_function
from repro.reports.compute_pipedream import DEVICES
from repro.reports.compute_timing import by_seed
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.pipelines import against, overhead, pipeline, samples_s, series, several
from repro.reports.probes import ProbeGroup

MEMORY = ("weights_bytes", "stash_bytes", "activation_bytes")

# --- Figure 1


Series = dict[tuple[str, str], dict[int, Summary]]


@function
def overhead_most(group: ProbeGroup, model: str) -> Outcome:
    """The largest communication overhead of a model over devices and workers."""
    each = {(device, n): overhead(run) for (name, device), of in series(group.summaries).items() if name == model
            for n, run in of.items()}  # fmt: skip
    if not each:
        return Outcome(reason=f"no results for {model}")
    where = max(each, key=each.__getitem__)
    return Outcome({group.seeds()[0]: each[where]}, note=f"{where[1]} workers, {where[0]}")


@function
def overhead_over(group: ProbeGroup, heavy: Sequence[str], light: Sequence[str], device: str) -> Outcome:
    """Least overhead of the models `heavy` minus the largest of `light` on a device, the least over workers > 1."""
    found = {name: of for (name, on), of in series(group.summaries).items() if on == device}
    if missing := [name for name in (*heavy, *light) if name not in found]:
        return Outcome(reason=f"no results on {device} for {', '.join(missing)}")
    common = set.intersection(*(set(found[name]) for name in (*heavy, *light))) - {1}
    if not common:
        return Outcome(reason="no number of workers that all models have")
    each = {
        n: min(overhead(found[name][n]) for name in heavy) - max(overhead(found[name][n]) for name in light)
        for n in common
    }
    least = min(each, key=lambda n: (each[n], n))
    return Outcome({group.seeds()[0]: each[least]}, note=f"least with {least} workers")


@function
def grows_with_workers(group: ProbeGroup) -> Outcome:
    """Share of the series (a model on a device) whose overhead never falls as workers are added."""
    return _growing(group, {key: [overhead(c) for c in of.values()] for key, of in series(group.summaries).items()})


@function
def grows_with_compute(group: ProbeGroup) -> Outcome:
    """Share of the series (a model with a number of workers > 1) whose overhead never falls from K80 to V100."""
    by_device: dict[tuple, dict[str, float]] = {}
    for (model, device), of in series(group.summaries).items():
        for n, run in of.items():
            if n > 1:
                by_device.setdefault((model, n), {})[device] = overhead(run)
    return _growing(group, {key: [of[d] for d in DEVICES if d in of] for key, of in by_device.items()})


def _growing(group: ProbeGroup, found: Mapping[tuple, Sequence[float]]) -> Outcome:
    several = {key: values for key, values in found.items() if len(values) > 1}
    if not several:
        return Outcome(reason="nothing to compare")
    falling = [key for key, values in several.items() if any(b < a - 1e-9 for a, b in pairwise(values))]
    note = f"{len(several) - len(falling)} of {len(several)} series"
    if falling:
        note += "; not: " + ", ".join(f"{a} {b}" for a, b in falling[:4]) + (" ..." if len(falling) > 4 else "")
    return Outcome({group.seeds()[0]: 1 - len(falling) / len(several)}, note=note)


@function
def least_scaling(group: ProbeGroup) -> Outcome:
    """The least throughput of several workers over that of one, over models and devices; below 1: slower than one."""
    each = {
        (model, device, n): samples_s(run) / samples_s(of[1])
        for (model, device), of in series(group.summaries).items() if 1 in of
        for n, run in of.items() if n > 1
    }  # fmt: skip
    if not each:
        return Outcome(reason="no results of one worker and of several")
    where = min(each, key=lambda key: (each[key], key))
    slower = sum(value < 1 for value in each.values())
    note = f"{where[0]}, {where[2]} workers, {where[1]}; slower than one in {slower} of {len(each)}"
    return Outcome({group.seeds()[0]: each[where]}, note=note)


# --- Figure 5


@probe_function("layer_sizes")
def layers_below(group: ProbeGroup, share: float = 0.1) -> Outcome:
    """Share of the layers whose output is less than `share` of the model's parameters: a cut there saves the rest."""

    def number_of(runs: list[Summary]) -> float | None:
        result = runs[0]["result"]
        small = [layer for layer in result["layers"] if layer["activation_bytes"] < share * result["parameter_bytes"]]
        return len(small) / len(result["layers"]) if result["layers"] else None

    layers = group.first["result"]["layers"]
    return by_seed(group, number_of, "no layers", f"{len(layers)} layers")


@probe_function("layer_sizes")
def best_layer(group: ProbeGroup) -> Outcome:
    """1 - (least output of a layer but the last) / parameters: what a cut there saves of sending all parameters."""

    def number_of(runs: list[Summary]) -> float | None:
        result = runs[0]["result"]
        outputs = [layer["activation_bytes"] for layer in result["layers"][:-1]]
        return 1 - min(outputs) / result["parameter_bytes"] if outputs else None

    return by_seed(group, number_of, "fewer than two layers", "")


# --- Figures 2, 3, 4, 6 and 8


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
    return _traced(
        group, setting, lambda run: schedules.updates_before(run, machine - 1, minibatch - 1),
        f"no forward pass of minibatch {minibatch} recorded",
    )  # fmt: skip


@function
def busy_share(group: Group, setting: str) -> Outcome:
    """Share of the machines' steady-state time in which they compute."""
    return _traced(group, setting, schedules.busy, "no steady state recorded")


@function
def machines_at_once(group: Group, setting: str) -> Outcome:
    """The most machines that compute at the same time."""
    return _traced(group, setting, schedules.at_once, "nothing computed")


@function
def stalled_share(group: Group, setting: str) -> Outcome:
    """Share of a step in which the machines stand still for communication or for others (mean over machines)."""
    return _paired(group, [setting], overhead, phases=True)


# --- measured here, weight versions, memory


@function
def rate_ratio(group: Group, setting: str, over: str | Sequence[str]) -> Outcome:
    """Samples a second of a variant over those of another one, or of that of several over which it gains least."""
    each = {name: _paired(group, [setting, name], lambda one, base: samples_s(one) / samples_s(base))
            for name in several(over)}  # fmt: skip
    if lacking := next((outcome for outcome in each.values() if not outcome.values), None):
        return lacking
    ratios = {name: spread(outcome.values.values()).median for name, outcome in each.items()}
    strongest = min(ratios, key=ratios.__getitem__)
    return replace(each[strongest], note=against(strongest, ratios))


@function
def backward_over_forward(group: Group, setting: str) -> Outcome:
    """Seconds of the backward passes over those of the forward passes."""
    return _paired(
        group, [setting], lambda one: one["phases"]["backward"] / one["phases"]["forward"], phases=True
    )  # fmt: skip


@function
def outside(group: Group, setting: str, one: str, other: str) -> Outcome:
    """How far the final metric of `setting` lies outside the range between those of two others; 0: between them."""

    def distance(run: Summary, low: Summary, high: Summary) -> float:
        value, ends = final(run), sorted((final(low), final(high)))
        return max(0.0, ends[0] - value, value - ends[1])

    return _paired(group, [setting, one, other], distance)


def _flying(group: Group, number_of: Callable[[Summary], float | None]) -> Outcome:
    """number_of(run), the farthest from 1 of all runs with 1F1B that say what was in flight, a seed each."""
    worst: dict[int, float] = {}
    for variant in group.covered():
        for seed, run in group.runs(variant).items():
            admits = run["strategy"] == "pipedream" and run["options"].get("in_flight") is None
            if not admits or pipeline(run).get("schedule") != "1f1b" or not run.get("per_rank"):
                continue
            value = number_of(run)
            if value is not None and (seed not in worst or abs(value - 1) > abs(worst[seed] - 1)):
                worst[seed] = value
    return Outcome(worst) if worst else Outcome(reason="no run with 1F1B says what was in flight")


def _most_in_flight(run: Summary, stage: int) -> int | None:
    """The most minibatches in flight at once in a replica of a stage."""
    known = [entry["in_flight"] for entry in run["per_rank"] if entry["stage"] == stage and "in_flight" in entry]
    return max(known, default=None)


@function
def input_in_flight(group: Group) -> Outcome:
    """The most minibatches in flight in the input stage over NOAM."""

    def number_of(run: Summary) -> float | None:
        most = _most_in_flight(run, 0)
        return None if most is None else most / pipeline(run)["noam"]

    return _flying(group, number_of)


@function
def output_in_flight(group: Group) -> Outcome:
    """The most minibatches in flight in the output stage of runs with several stages."""

    def number_of(run: Summary) -> float | None:
        last = max(entry["stage"] for entry in run["per_rank"])
        return _most_in_flight(run, last) if last else None

    return _flying(group, number_of)


@function
def memory_off(group: Group) -> Outcome:
    """Observed over predicted memory of a rank (weights, stashes and activations), the one farthest from 1."""
    worst: dict[int, tuple[float, str]] = {}
    for variant in group.covered():
        for seed, run in group.runs(variant).items():
            for entry in run.get("per_rank") or ():
                ratio = memory_ratio(entry)
                if ratio is not None and (seed not in worst or abs(ratio - 1) > abs(worst[seed][0] - 1)):
                    worst[seed] = ratio, f"{variant}, stage {entry['stage'] + 1}"
    if not worst:
        return Outcome(reason="no run says its memory a rank")
    note = max(worst.values(), key=lambda found: abs(found[0] - 1))
    return Outcome({seed: ratio for seed, (ratio, _) in worst.items()}, note=f"{note[1]}: {number(note[0])}")


def memory_ratio(entry: Mapping) -> float | None:
    """Observed over predicted bytes of a rank; None where one of them is not known."""
    predicted = entry.get("predicted") or {}
    if any(entry.get(name) is None or predicted.get(name) is None for name in MEMORY):
        return None
    expected = sum(predicted[name] for name in MEMORY)
    return sum(entry[name] for name in MEMORY) / expected if expected else None
