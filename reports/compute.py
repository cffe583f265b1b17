"""How ours is computed for a claim: small functions from a group of summaries to one number a seed.

A claims file names one of these functions and its arguments (`setting`: a variant's label); nothing of it is
evaluated as code. Times are seconds an
iteration unless said otherwise. `main line` is a rank's computation thread; `exposed` means blocked on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import signature

from repro.reporting.evaluate import Outcome
from repro.reporting.evaluate import ratio as _ratio
from repro.reporting.stats import spread
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.style import COMPUTATION

FUNCTIONS: dict[str, Callable[..., Outcome]] = {}  # `repro.reports.evidence` imports all that add to it
OF_PROBES: dict[str, str] = {}  # those over a probe's results (a ProbeGroup) -> the program


def function(compute: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Make a function over a Group of training summaries known to the claims files."""
    FUNCTIONS[compute.__name__] = compute
    return compute


def takes_error(name: str) -> bool:
    """Whether a function counts or compares ratios, each of which may be wrong by a factor: its argument `off`."""
    return "off" in signature(FUNCTIONS[name]).parameters


def probe_function(program: str) -> Callable[[Callable[..., Outcome]], Callable[..., Outcome]]:
    """The same for one over a ProbeGroup of `program`."""

    def register(compute: Callable[..., Outcome]) -> Callable[..., Outcome]:
        OF_PROBES[compute.__name__] = program
        return function(compute)

    return register


def _paired(
    group: Group, variants: list[str], number: Callable[..., float], phases: bool = False, note: str = ""
) -> Outcome:
    """number(*runs) for every seed that all `variants` have."""
    runs = [(group.phase_runs if phases else group.runs)(name) for name in variants]
    if missing := [name for name, found in zip(variants, runs, strict=True) if not found]:
        return Outcome(reason=f"no results for {', '.join(missing)}")
    seeds = sorted(set.intersection(*(set(found) for found in runs)))
    if not seeds:
        return Outcome(reason=f"no seed in common between {' and '.join(variants)}")
    return Outcome({seed: number(*(found[seed] for found in runs)) for seed in seeds}, note=note)


def timing_only(run: Summary) -> bool:
    """Whether a run's ranks computed nothing."""
    return (run["testbed_model"] or {}).get("arithmetic") == "none"


def iteration_s(run: Summary) -> float:
    """End-to-end training time divided by its iterations."""
    return run["final"]["train_s"] / run["iterations"]


def communication_s(run: Summary) -> float:
    """All communication and the waiting for others that comes with it: the paper's figure knows no separate wait."""
    return run["communication"]["total_s"] + run["phases"]["wait"]


def exposed_s(run: Summary) -> float:
    """What communication costs the main line: blocked on transfers, on other ranks, and compressing."""
    return run["phases"]["communicate"] + run["phases"]["wait"] + run["phases"]["compress"]


def computation_s(run: Summary) -> float:
    """Forward, backward, update, data, other, and the compression on the main line: l_up + l_comp of equation (4)."""
    return sum(run["phases"][name] for name in (*COMPUTATION, "compress"))


def final(run: Summary) -> float:
    """The metric at the end; NaN where nothing was really computed (a testbed without arithmetic)."""
    found = run["final"][run["metric"]]
    return math.nan if found is None else found


def target_s(run: Summary, target: str) -> float:
    """Training seconds to a target; infinity where it was not reached."""
    reached = run["targets"].get(target)
    return reached["train_s"] if reached else math.inf


@function
def speedup(group: Group, setting: str | list[str], over: str) -> Outcome:
    """End-to-end training time of `over` / that of `setting`, same iterations; of several variants the fastest.

    Where nothing was computed, only time passed, lengths may differ: time of an iteration.
    """
    names = [setting] if isinstance(setting, str) else list(setting)
    there = [name for name in names if group.runs(name)]
    if not there:
        return Outcome(reason=f"no results for {', '.join(names)}")
    runs = [run for name in (*there, over) for run in group.runs(name).values()]
    lengths = sorted({run["iterations"] for run in runs})
    if len(lengths) > 1 and not all(map(timing_only, runs)):
        return Outcome(reason="the variants ran different numbers of iterations")
    best = min(there, key=lambda name: spread(map(iteration_s, group.runs(name).values())).median)
    missing = [name for name in names if name not in there]
    notes = [f"fastest: {best}"] * (len(names) > 1) + [f"no results for {', '.join(missing)}"] * bool(missing)
    notes += [f"an iteration, timing only, of {' and '.join(map(str, lengths))}"] * (len(lengths) > 1)
    return _paired(
        group, [best, over], lambda one, base: _ratio(iteration_s(base), iteration_s(one)), note="; ".join(notes)
    )


@function
def communication_reduction(group: Group, setting: str, over: str) -> Outcome:
    """Share of `over`'s communication time that `setting` saves (waiting included on both sides)."""
    workers = group.first["workers"]
    note = (
        f"closed forms, p = {workers}: {100 * incast_reduction(workers):.0f} % less where pushes and pulls meet at the "
        f"server (2p·nβ against 2(p-1)/p·nβ); {100 * staggered_reduction(workers):.0f} % where its card serves one "
        f"after another, as the simulated one does ((p+1)·nβ)"
    )
    return _paired(
        group,
        [setting, over],
        lambda one, base: 1 - _ratio(communication_s(one), communication_s(base)),
        phases=True,
        note=note,
    )


def staggered_reduction(workers: int) -> float:
    """Bandwidth terms only, served in order: the pulls of one worker run beside the pushes of the next."""
    return 1 - (2 * (workers - 1) / workers) / (workers + 1)


def incast_reduction(workers: int) -> float:
    """Bandwidth terms only: a ring's 2(p-1)/p·n·beta against 2·p·n·beta through one server's link (ERRATA)."""
    return 1 - (2 * (workers - 1) / workers) / (2 * workers)


@function
def compression_gain(group: Group, setting: str, over: str) -> Outcome:
    """(communication of `over`) / (communication + compression of `setting`): ideal is the codec's factor."""
    return _paired(
        group,
        [setting, over],
        lambda one, base: _ratio(communication_s(base), communication_s(one) + one["phases"]["compress"]),
        phases=True,
    )


@function
def hidden_per_compression(group: Group, setting: str, over: str) -> Outcome:
    """Exposed seconds that `setting` takes off the main line against `over`, per second that `over` compresses.

    At least 1: the pipeline hides as much as the whole compression overhead.
    """
    absent = [run for run in group.phase_runs(over).values() if run["phases"]["compress"] <= 0]
    if absent:
        return Outcome(reason=f"no compression time recorded for {over}")
    return _paired(
        group,
        [setting, over],
        phases=True,
        number=lambda one, base: (exposed_s(base) - exposed_s(one)) / base["phases"]["compress"],
    )


@function
def communication_per_computation(group: Group, setting: str) -> Outcome:
    """All communication / computation of `setting`: below 1 the system is compute bound (equation (4))."""
    return _paired(
        group, [setting], lambda one: _ratio(one["communication"]["total_s"], computation_s(one)), phases=True
    )


@function
def exposed_share(group: Group, setting: str) -> Outcome:
    """Share of an iteration in which the main line is blocked on communication or on other ranks."""
    return _paired(
        group,
        [setting],
        phases=True,
        number=lambda one: _ratio(one["phases"]["communicate"] + one["phases"]["wait"], sum(one["phases"].values())),
    )


@function
def pipeline_model(group: Group, setting: str) -> Outcome:
    """Iteration time / max(l_up + l_comp, l_comm) of equation (4), both sides from the same runs."""
    return _paired(
        group,
        [setting],
        phases=True,
        number=lambda one: _ratio(iteration_s(one), max(computation_s(one), one["communication"]["total_s"])),
    )


@function
def final_metric(group: Group, setting: str) -> Outcome:
    """The metric on the test set at the end of training."""
    return _paired(group, [setting], final)


@function
def metric_gap(group: Group, setting: str, over: str) -> Outcome:
    """Final metric of `setting` minus that of `over`, seed by seed."""
    return _paired(group, [setting, over], lambda one, base: final(one) - final(base))


@function
def time_to_target_speedup(group: Group, setting: str | list[str], over: str, target: str) -> Outcome:
    """Training time to the target, `over` / `setting`; infinite where only `over` misses it, 0 where only `setting`."""
    names = [setting] if isinstance(setting, str) else list(setting)
    there = [name for name in names if group.runs(name)]
    if not there:
        return Outcome(reason=f"no results for {', '.join(names)}")
    runs = [run for name in (*there, over) for run in group.runs(name).values()]
    if any(target not in run["targets"] for run in runs):
        return Outcome(reason=f"target {target} was not set")
    best = min(there, key=lambda name: spread(target_s(c, target) for c in group.runs(name).values()).median)
    note = f"fastest: {best}" if len(names) > 1 else ""
    found = _paired(
        group, [best, over], lambda one, base: _ratio(target_s(base, target), target_s(one, target)), note=note
    )
    if found.values and all(math.isnan(value) for value in found.values.values()):
        return Outcome(reason=f"target {target} not reached by {best} nor {over}")
    return Outcome({seed: v for seed, v in found.values.items() if not math.isnan(v)}, found.reason, found.note)
