"""What is eager-SGD's own arithmetic: lengths and runtimes, partial collectives, and what the rounds of a run held.

Counters of an eager run are sums over the ranks: `rounds`, `active`, `accepted`, `pending`, `dropped`, `missed`. The
mean number of active processes (NAP) is ranks x active / rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from repro.reporting.stats import spread
from repro.reports.compute import Outcome, function, probe_function
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

# --- Figure 2 (a): lengths

MADE_UP = "standin-lengths"  # in the name of a data set whose lengths are generated, and not its features alone


def _of_probe(group: ProbeGroup, number_of: Callable[[Summary], float | None], reason: str) -> Outcome:
    """number_of's median over a seed's runs, for each seed that has one."""
    values = {}
    for seed in group.seeds():
        if there := [value for run in group.of_seed(seed) if (value := number_of(run)) is not None]:
            values[seed] = spread(there).median
    return Outcome(values) if values else Outcome(reason=reason)


@probe_function("lengths")
def length_statistic(group: ProbeGroup, statistic: str, of: str = "train") -> Outcome:
    """n, min, max, median, mean or sd of the lengths in frames of a split, by the beginning of its name."""
    if any(MADE_UP in str((run.get("dataset") or {}).get("name")) for run in group.summaries):
        return Outcome(reason="stand-in data: the lengths are generated")

    def number_of(run: Summary) -> float | None:
        return next((split[statistic] for name, split in run["result"]["splits"].items() if name.startswith(of)), None)

    return _of_probe(group, number_of, f"no lengths of {of}")


# --- Figures 2 (b), 3 and 4: runtimes of batches


@probe_function("runtimes")
def runtime_by_length(group: ProbeGroup) -> Outcome:
    """Pearson's correlation between the seconds and the lengths of batches."""

    def number_of(run: Summary) -> float | None:
        return correlation(run["result"].get("lengths") or (), run["result"]["seconds"])

    return _of_probe(group, number_of, "no lengths of batches recorded")


def correlation(lengths: Any, seconds: Any) -> float | None:
    """Pearson's r; None of fewer than three pairs or where one does not vary."""
    import numpy as np

    if len(lengths) != len(seconds) or len(lengths) < 3 or not (np.ptp(lengths) and np.ptp(seconds)):
        return None
    return float(np.corrcoef(lengths, seconds)[0, 1])


# --- Figure 9: latency and number of active processes


def collectives(run: Summary, name: str, ranks: int) -> dict[float, dict[str, Any]]:
    """bytes -> the row of a collective with so many ranks."""
    return {row["bytes"]: row for row in run["result"]["rows"] if row["collective"] == name and row["ranks"] == ranks}


def nap(row: dict[str, Any]) -> float:
    """A row's mean number of active processes; a row may have their spread too."""
    found = row["nap"]
    return float(found["mean"] if isinstance(found, dict) else found)


def latency_ratios(run: Summary, of: str, over: str, ranks: int) -> list[float]:
    """Mean latency of `over` / that of `of`, one a message size."""
    ours, base = collectives(run, of, ranks), collectives(run, over, ranks)
    return [base[size]["latency_s"]["mean"] / ours[size]["latency_s"]["mean"] for size in sorted({*ours} & {*base})]


@probe_function("partial_collectives")
def latency_reduction(group: ProbeGroup, of: str, over: str = "allreduce", ranks: int = 32) -> Outcome:
    """Mean latency of `over` / that of `of`, averaged over the message sizes."""
    return _of_probe(group, lambda run: mean(latency_ratios(run, of, over, ranks)), f"not run with {ranks} ranks")


@probe_function("partial_collectives")
def active_processes(group: ProbeGroup, of: str, ranks: int = 32) -> Outcome:
    """Mean number of active processes (NAP), averaged over the message sizes."""
    return _of_probe(
        group, lambda run: mean(list(map(nap, collectives(run, of, ranks).values()))), f"not run with {ranks} ranks"
    )


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


# --- what the rounds held


def counters(run: Summary) -> Mapping[str, float]:
    """What an eager run counted; empty where it was no eager run."""
    found = run.get("counters") or {}
    return found if found.get("rounds") else {}


def eager(group: Group, variant: str | None = None) -> Iterator[tuple[int, Summary]]:
    """(seed, run) of the runs that counted rounds."""
    for name in group.covered() if variant is None else [variant]:
        for seed, run in group.runs(name).items():
            if counters(run):
                yield seed, run


def conserved_share(run: Summary) -> float:
    """(accepted + pending + dropped) / (ranks x iterations): 1 if every local gradient is accounted for."""
    of, ranks = counters(run), run.get("ranks", run["workers"])
    return sum(of.get(name, 0.0) for name in ("accepted", "pending", "dropped")) / (ranks * run["iterations"])


def staleness(run: Summary) -> dict[int, int]:
    """Rounds between a gradient's step and the round that accepted it -> how many such gradients, all ranks."""
    found: dict[int, int] = {}
    for of_rank in run.get("staleness") or ():
        for age, count in of_rank.items():
            found[int(age)] = found.get(int(age), 0) + int(count)
    return dict(sorted(found.items()))


@function
def conservation(group: Group) -> Outcome:
    """Of all eager runs of a group the share of local gradients accounted for that is farthest from 1, a seed each."""
    worst: dict[int, float] = {}
    for seed, run in eager(group):
        accounted = conserved_share(run)
        if seed not in worst or abs(accounted - 1) > abs(worst[seed] - 1):
            worst[seed] = accounted
    return Outcome(worst) if worst else Outcome(reason="no eager run counted its rounds")


def rounds_of_a_delay(run: Summary) -> int | None:
    """Rounds that one longest delay explains: ceil(delay / c) + 1, c the mean seconds of a step's computation.

    A round takes at least c, and one more is under way. Delays of one rank in steps that follow each other add up, so
    this is no bound of a whole run. None where the injector has no bound or nothing was computed.
    """
    injector, phases = run.get("imbalance") or {}, run["phases"]
    delays = [float(injector[name]) for name in ("delay_s", "high_s") if injector.get(name) is not None]
    computing = sum(phases[name] for name in ("forward", "backward", "update", "data"))
    if not delays or computing <= 0:
        return None
    return math.ceil(max(delays) / computing) + 1


@function
def staleness_explained(group: Group, setting: str) -> Outcome:
    """Share of the accepted gradients that are not later than one injected delay explains (`rounds_of_a_delay`)."""
    found = {}
    for seed, run in eager(group, setting):
        ages, most = staleness(run), rounds_of_a_delay(run)
        if ages and most:
            found[seed] = sum(n for age, n in ages.items() if age <= most) / sum(ages.values())
    return Outcome(found) if found else Outcome(reason=f"no staleness, or no injector with a bound, for {setting}")
