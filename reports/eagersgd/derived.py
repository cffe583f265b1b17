"""What is eager-SGD's own arithmetic: lengths and runtimes, partial collectives, and what the rounds of a run held.

Counters of an eager run are sums over the ranks: `rounds`, `active`, `accepted`, `pending`, `dropped`, `missed`. The
mean number of active processes (NAP) is ranks x active / rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from repro.common.known import known
from repro.reporting.stats import TIMES, number, spread
from repro.reports.compute import Outcome, function, iteration_s, paired, probe_function
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

# --- Figure 2 (a): lengths

MADE_UP = "standin-lengths"  # in the name of a data set whose lengths are generated, and not its features alone


def _of_probe(group: ProbeGroup, number_of: Callable[[Summary], float | None], reason: str, note: str = "") -> Outcome:
    """number_of's median over a seed's runs, for each seed that has one."""
    values = {}
    for seed in group.seeds():
        if there := [value for run in group.of_seed(seed) if (value := number_of(run)) is not None]:
            values[seed] = spread(there).median
    return Outcome(values, note=note) if values else Outcome(reason=reason)


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
def runtime_statistic(group: ProbeGroup, statistic: str, over: str = "") -> Outcome:
    """min, max, mean or sd of a batch's seconds; over: divided by another statistic, as machines differ."""

    def number_of(run: Summary) -> float:
        of = run["result"]["statistics"]
        return of[statistic] / (of[over] if over else 1)

    counts = sum(run["result"]["statistics"]["n"] for run in group.summaries)
    return _of_probe(group, number_of, "no runtimes", f"{counts:,} batches")


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
    every = [ratio for run in group.summaries for ratio in latency_ratios(run, of, over, ranks)]
    note = f"{number(min(every))} to {number(max(every))}{TIMES} over the sizes" if every else ""
    return _of_probe(group, lambda run: mean(latency_ratios(run, of, over, ranks)), f"not run with {ranks} ranks", note)


@probe_function("partial_collectives")
def active_processes(group: ProbeGroup, of: str, ranks: int = 32) -> Outcome:
    """Mean number of active processes (NAP), averaged over the message sizes."""
    return _of_probe(
        group, lambda run: mean(list(map(nap, collectives(run, of, ranks).values()))), f"not run with {ranks} ranks"
    )


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


# --- training: one worker alone, and scores other than the metric


@function
def alone_seconds(group: Group, batch: int, samples: int, epochs: int) -> Outcome:
    """Seconds of so many epochs of so many samples with one worker, from its seconds a sample."""
    single = [run for run in group.used() if run["workers"] == 1 and run["batch"] == batch and not run["breakdown"]]
    if not single:
        return Outcome(reason=f"no run of one worker with batch {batch}")
    return Outcome({run["seed"]: iteration_s(run) / batch * samples * epochs for run in single})


@function
def final_score(group: Group, setting: str, score_of: str) -> Outcome:
    """A score at the end of training: top1, top5, train_top1, train_top5."""

    def score(run: Summary) -> float:
        value = run["final"].get(score_of)
        return math.nan if value is None else value

    found = paired(group, [setting], score)
    if found.values and all(map(math.isnan, found.values.values())):
        return Outcome(reason=f"no {score_of} was evaluated for {setting}")
    return found


@function
def best_score(group: Group, setting: str, score_of: str) -> Outcome:
    """The best of the seeds' final scores ("up to")."""
    found = final_score(group, setting, score_of)
    there = {seed: value for seed, value in found.values.items() if not math.isnan(value)}
    if not there:
        return found
    best = max(there, key=there.__getitem__)
    return Outcome({best: there[best]}, note=f"best of {len(there)} seed{'s' if len(there) != 1 else ''}")


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


def share(run: Summary, of: str) -> float:
    """A counter's share of the rounds that the ranks took part in."""
    return counters(run).get(of, 0.0) / counters(run)["rounds"]


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
    every = list(eager(group))
    for seed, run in every:
        accounted = conserved_share(run)
        if seed not in worst or abs(accounted - 1) > abs(worst[seed] - 1):
            worst[seed] = accounted
    if not worst:
        return Outcome(reason="no eager run counted its rounds")
    return Outcome(worst, note=f"the farthest from 1 of {len(every)} runs")


@function
def active_ranks(group: Group, setting: str) -> Outcome:
    """Share of the ranks that contribute to a round in time: NAP / ranks."""
    found = {seed: share(run, "active") for seed, run in eager(group, setting)}
    if not found:
        return Outcome(reason=f"no rounds counted for {setting}")
    ranks = max(run.get("ranks") or run["workers"] for _, run in eager(group, setting))
    return Outcome(found, note=f"NAP {number(ranks * known(spread(found.values()).median))} of {ranks} ranks")


@function
def missed_results(group: Group, setting: str) -> Outcome:
    """Share of the round results that a rank never applied, because the next one had overwritten them."""
    found = {seed: share(run, "missed") for seed, run in eager(group, setting)}
    return Outcome(found) if found else Outcome(reason=f"no rounds counted for {setting}")


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
