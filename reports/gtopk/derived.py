"""gTop-k's claims on collectives, selection and bandwidth: numbers that no verb computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import pandas as pd

from repro.answers.claims.compute import by_seed, function, paired, probe_function
from repro.answers.claims.evaluate import Outcome, safe_ratio
from repro.answers.claims.stats import median_or_none
from repro.answers.tables.runs import Runs
from repro.records.record import Found

# unit in which the time of a collective is claimed to grow
UNITS: dict[str, Callable[[float], float]] = {"log2 P": math.log2, "P - 1": lambda P: P - 1, "bytes": lambda size: size}


@function
def extra_compression(group: Runs, variant: str, over: str) -> Outcome:
    """(compression of `variant` - that of `over`) / communication of `variant`, all on the main line."""

    def share(run: Found, base: Found) -> float:
        phases = run.training.phases
        extra = max(0.0, phases["compress"] - base.training.phases["compress"])
        return safe_ratio(extra, phases["communicate"] + phases["wait"])

    return paired(group, [variant, over], share)


# --- collectives (Table I, Figure 9)


def _growth(group: Runs, by: str, number: Callable[[pd.DataFrame], pd.Series], reason: str) -> Outcome:
    """number(seconds of each algorithm by `ranks` and `bytes`) at the greatest `by` / the same at the least, one a
    seed.

    The other one of `ranks` and `bytes` is fixed at the value with most points, of several the greatest.
    """
    other, values = "ranks" if by == "bytes" else "bytes", {}
    for seed, seconds in _seconds_by_seed(group).items():
        numbers = number(seconds).dropna()
        lines = {(len(line), fixed): line for fixed, line in numbers.groupby(other)}
        if lines and len(line := lines[max(lines)]) > 1:
            values[seed] = float(line.iloc[-1] / line.iloc[0])
    return Outcome(values) if values else Outcome(reason=reason)


@lru_cache(maxsize=16)  # a draw's runs speak to dozens of claims
def _seconds_by_seed(group: Runs) -> dict[int, pd.DataFrame]:
    """seed -> seconds of each algorithm (columns) by `ranks` and `bytes`."""
    several = group.rows[group.rows["ranks"] > 1]
    places = ["ranks", "bytes", "algorithm"]
    return {seed: rows.groupby(places)["seconds.median"].last().unstack() for seed, rows in several.groupby("seed")}


@probe_function("sparse_collectives")
def collective_growth(group: Runs, algorithm: str, by: str) -> Outcome:
    """(seconds / unit) at the greatest number of workers P or of bytes / the same at the least; 1: it grows as the
    unit.

    by: the unit, `log2 P` or `P - 1` (at the powers of two for which the formulas hold), or `bytes`.
    """

    def number(seconds: pd.DataFrame) -> pd.Series:
        units = [UNITS[by](size if by == "bytes" else P) if by == "bytes" or P & (P - 1) == 0 else math.nan
                 for P, size in seconds.index]  # fmt: skip
        return seconds[algorithm] / units

    return _growth(group, by, number, f"{algorithm} was not run at several sizes")


@probe_function("sparse_collectives")
def advantage_growth(group: Runs, of: str, over: str, by: str) -> Outcome:
    """(seconds of `over` / of `of`) at the most workers or bytes / the same at the fewest; above 1: the lead grows."""
    return _growth(group, by, lambda s: s[over] / s[of], f"{of} and {over} were not run at several {by}")


# --- selection (Figure 11)


def _share(runs: Sequence[Found], model: str, gpu: bool) -> float | None:
    rows = [row for run in runs for row in run.probe.found["rows"] if (row["model"], row["method"]) == (model, "exact")]
    return median_or_none(row["share"] for row in rows if row["device"].lower().startswith("cpu") != gpu)


@probe_function("selection")
def selection_share(group: Runs, model: str, gpu: bool = False) -> Outcome:
    """Seconds of selecting k gradients exactly / the published seconds of an iteration's computation (Table VI)."""
    reason = f"no exact selection of {model} on a {'GPU' if gpu else 'CPU'}"
    return by_seed(group, lambda runs: _share(runs, model, gpu), reason)


@probe_function("selection")
def gpu_gain(group: Runs, model: str) -> Outcome:
    """Seconds of selecting on the CPU / on the GPU."""

    def gain(runs: list[Found]) -> float | None:
        cpu, gpu = (_share(runs, model, on) for on in (False, True))
        return cpu / gpu if cpu and gpu else None

    return by_seed(group, gain, f"no exact selection of {model} on both CPU and GPU")


# --- bandwidth


@function
def crossing_gbit(group: Runs, over: str, alpha_ms: float) -> Outcome:
    """The bandwidth at which gTop-k's step takes as long as that of `over`, interpolated on a log scale.

    Where gTop-k is slower (faster) at all bandwidths, the least (greatest) one that was run.
    """
    columns = ("seed", "factors.alpha_ms", "factors.gbit", "factors.method", "step_s")
    frame, values = group.columns("runs", *columns), {}
    for seed, runs in frame[frame["factors.alpha_ms"].astype(float) == alpha_ms].groupby("seed"):
        seconds = runs.groupby([runs["factors.gbit"].astype(float), "factors.method"])["step_s"].median().unstack()
        if {over, "gTop-k"} <= set(seconds):
            values[int(seed)] = crossing((seconds[over] / seconds["gTop-k"]).dropna())
    return Outcome(values) if values else Outcome(reason=f"no results for {over} and gTop-k with {alpha_ms:g} ms")


def crossing(speedup: pd.Series) -> float:
    """The bandwidth at which a speed-up, indexed by bandwidth, becomes 1."""
    at, gain = [[math.log(value) for value in values] for values in (speedup.index, speedup)]
    if gain[0] <= 0 or gain[-1] > 0:
        return float(speedup.index[0 if gain[0] <= 0 else -1])
    first = next(place for place, value in enumerate(gain) if value <= 0)
    share = gain[first - 1] / (gain[first - 1] - gain[first])
    return math.exp(at[first - 1] + share * (at[first] - at[first - 1]))
