"""What Pipe-SGD's claims need beyond verbs: where the time of an iteration goes, targets, K, lossy compression.

Times are seconds an iteration unless said otherwise. `main line` is a rank's computation thread; `exposed` means
blocked on it.
"""

from __future__ import annotations

import math

from repro.reporting.evaluate import Outcome
from repro.reporting.evaluate import ratio as _ratio
from repro.reporting.stats import spread
from repro.reports import factors
from repro.reports.compute import final, function, paired, target_s
from repro.reports.groups import Group
from repro.reports.loading import Summary


def exposed_s(run: Summary) -> float:
    """What communication costs the main line: blocked on transfers, on other ranks, and compressing."""
    return run["phases"]["communicate"] + run["phases"]["wait"] + run["phases"]["compress"]


def staggered_reduction(workers: int) -> float:
    """Bandwidth terms only, served in order: the pulls of one worker run beside the pushes of the next."""
    return 1 - (2 * (workers - 1) / workers) / (workers + 1)


def incast_reduction(workers: int) -> float:
    """Bandwidth terms only: a ring's 2(p-1)/p·n·beta against 2·p·n·beta through one server's link (ERRATA)."""
    return 1 - (2 * (workers - 1) / workers) / (2 * workers)


@function
def hidden_per_compression(group: Group, setting: str, over: str) -> Outcome:
    """Exposed seconds that `setting` takes off the main line against `over`, per second that `over` compresses.

    At least 1: the pipeline hides as much as the whole compression overhead.
    """
    absent = [run for run in group.phase_runs(over).values() if run["phases"]["compress"] <= 0]
    if absent:
        return Outcome(reason=f"no compression time recorded for {over}")
    return paired(
        group,
        [setting, over],
        phases=True,
        number=lambda one, base: (exposed_s(base) - exposed_s(one)) / base["phases"]["compress"],
    )


@function
def time_to_target_speedup(group: Group, setting: str | list[str], over: str, target: str) -> Outcome:
    """Training time to the target, `over` / `setting`; infinite where only `over` misses it, 0 where only `setting`."""
    if group.standin:
        return Outcome(reason="stand-in data")
    names = [setting] if isinstance(setting, str) else list(setting)
    there = [name for name in names if group.runs(name)]
    if not there:
        return Outcome(reason=f"no results for {', '.join(names)}")
    runs = [run for name in (*there, over) for run in group.runs(name).values()]
    if any(target not in run["targets"] for run in runs):
        return Outcome(reason=f"target {target} was not set")
    best = min(there, key=lambda name: spread(target_s(c, target) for c in group.runs(name).values()).median)
    found = paired(group, [best, over], lambda one, base: _ratio(target_s(base, target), target_s(one, target)))
    if found.values and all(math.isnan(value) for value in found.values.values()):
        return Outcome(reason=f"target {target} not reached by {best} nor {over}")
    return Outcome({seed: v for seed, v in found.values.items() if not math.isnan(v)}, found.reason)


def step_s(run: Summary) -> float:
    """Median seconds of an iteration: the steady state, without a pipeline's fill and drain."""
    return run["step"].get("median_s", run["step"]["mean_s"])


def K_variants(group: Group) -> dict[int, str]:
    """K -> its variant, of those that have results and a constant learning rate."""
    known = {name: factors.of(group.one(name)) for name in group.covered()}
    return {
        int(varied["strategy.K"]): name
        for name, varied in known.items()
        if "strategy.K" in varied and "rate" not in varied
    }


@function
def best_K(group: Group) -> Outcome:
    """Median step time of K = 2 / that of the fastest K above 2: at most 1 where larger K gains nothing."""
    known = K_variants(group)
    larger = [name for K, name in known.items() if K > 2]
    if 2 not in known or not larger:
        return Outcome(reason="no results for K = 2 and a larger K")
    best = min(larger, key=lambda name: spread(map(step_s, group.runs(name).values())).median)
    return paired(group, [known[2], best], lambda two, more: _ratio(step_s(two), step_s(more)))


@function
def tolerance(group: Group, codec: str = "T") -> Outcome:
    """(metric lost by compressing parameters) - (metric lost by compressing gradients); above 0: parameters lose more.

    codec: T (truncation) or Q (quantization), as in the variants' names.
    """
    names = ["Gradients", f"Gradients + {codec}", "Parameters", f"Parameters + {codec}"]
    return paired(group, names, lambda g, gc, p, pc: (final(p) - final(pc)) - (final(g) - final(gc)))
