"""How ours is computed for eager-SGD's claims about lengths, runtimes and partial collectives (Figures 2, 3, 4, 9)."""

from __future__ import annotations

from typing import Any

from repro.reporting.stats import TIMES, number
from repro.reports.compute import Outcome, probe_function
from repro.reports.compute_timing import by_seed, median
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

# --- Figure 2 (a): lengths


MADE_UP = "standin-lengths"  # in the name of a data set whose lengths are generated, and not its features alone


def made_up(group: ProbeGroup) -> bool:
    """Are the lengths a generator's?"""
    return any(MADE_UP in str((run.get("dataset") or {}).get("name")) for run in group.summaries)


def split(run: Summary, name: str) -> dict[str, Any] | None:
    """The statistics of a split's lengths; without that name the split whose name begins with it."""
    splits = run["result"]["splits"]
    return splits.get(name) or next((found for key, found in splits.items() if key.startswith(name)), None)


@probe_function("lengths")
def length_statistic(group: ProbeGroup, statistic: str, of: str = "train") -> Outcome:
    """n, min, max, median, mean or sd of a split's lengths in frames."""

    if made_up(group):
        return Outcome(reason="stand-in data: the lengths are generated")

    def number_of(runs: list[Summary]) -> float | None:
        return median(found[statistic] for run in runs if (found := split(run, of)))

    every = {key: found[statistic] for run in group.summaries for key, found in run["result"]["splits"].items()}
    note = ", ".join(f"{key}: {number(value, 5)}" for key, value in every.items())
    return by_seed(group, number_of, f"no lengths of {of}", note)


# --- Figures 2 (b), 3 and 4: runtimes of batches


@probe_function("runtimes")
def runtime_statistic(group: ProbeGroup, statistic: str, over: str = "") -> Outcome:
    """min, max, mean or sd of a batch's seconds; over: divided by another statistic, as machines differ."""

    def number_of(runs: list[Summary]) -> float | None:
        found = [run["result"]["statistics"] for run in runs]
        return median(one[statistic] / one[over] if over else one[statistic] for one in found)

    counts = sum(run["result"]["statistics"]["n"] for run in group.summaries)
    return by_seed(group, number_of, "no runtimes", f"{counts:,} batches")


@probe_function("runtimes")
def runtime_by_length(group: ProbeGroup) -> Outcome:
    """Pearson's correlation between the seconds and the lengths of batches."""

    def number_of(runs: list[Summary]) -> float | None:
        return median(
            value
            for run in runs
            if (value := correlation(run["result"].get("lengths") or (), run["result"]["seconds"])) is not None
        )

    return by_seed(group, number_of, "no lengths of batches recorded", "")


def correlation(lengths: Any, seconds: Any) -> float | None:
    """Pearson's r; None of fewer than three pairs or where one does not vary."""
    import numpy as np

    if len(lengths) != len(seconds) or len(lengths) < 3 or not (np.ptp(lengths) and np.ptp(seconds)):
        return None
    return float(np.corrcoef(lengths, seconds)[0, 1])


# --- Figure 9: latency and number of active processes


def collectives(runs: list[Summary], name: str, ranks: int) -> dict[float, dict[str, Any]]:
    """bytes -> the row of a collective with so many ranks."""
    rows = [row for run in runs for row in run["result"]["rows"]]
    return {row["bytes"]: row for row in rows if row["collective"] == name and row["ranks"] == ranks}


def nap(row: dict[str, Any]) -> dict[str, float]:
    """mean, min, max of a row's active processes; a row may have the mean alone."""
    found = row["nap"]
    return found if isinstance(found, dict) else dict.fromkeys(("mean", "min", "max"), float(found))


def latency_ratios(runs: list[Summary], of: str, over: str, ranks: int) -> list[float]:
    """Mean latency of `over` / that of `of`, one a message size."""
    ours, base = collectives(runs, of, ranks), collectives(runs, over, ranks)
    return [base[size]["latency_s"]["mean"] / ours[size]["latency_s"]["mean"] for size in sorted(set(ours) & set(base))]


@probe_function("partial_collectives")
def latency_reduction(group: ProbeGroup, of: str, over: str = "allreduce", ranks: int = 32) -> Outcome:
    """Mean latency of `over` / that of `of`, averaged over the message sizes."""

    def number_of(runs: list[Summary]) -> float | None:
        found = latency_ratios(runs, of, over, ranks)
        return sum(found) / len(found) if found else None

    every = latency_ratios(list(group.summaries), of, over, ranks)
    note = f"{number(min(every))} to {number(max(every))}{TIMES} over {len(every)} sizes" if every else ""
    return by_seed(group, number_of, f"not run with {ranks} ranks", note)


@probe_function("partial_collectives")
def active_processes(group: ProbeGroup, of: str, ranks: int = 32) -> Outcome:
    """Mean number of active processes (NAP), averaged over the message sizes."""

    def number_of(runs: list[Summary]) -> float | None:
        found = [nap(row)["mean"] for row in collectives(runs, of, ranks).values()]
        return sum(found) / len(found) if found else None

    return by_seed(group, number_of, f"not run with {ranks} ranks", "")
