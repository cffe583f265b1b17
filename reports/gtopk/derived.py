"""How ours is computed for gTop-k's claims about collectives and selection, where no verb reaches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd

from repro.answers.claims.compute import by_seed, function, paired, probe_function
from repro.answers.claims.evaluate import Outcome, ratio
from repro.answers.claims.stats import median
from repro.answers.tables.loading import Summary
from repro.answers.tables.runs import Runs

# what the seconds of a collective are said to grow with
UNITS: dict[str, Callable[[float], float]] = {"log2 P": math.log2, "P - 1": lambda P: P - 1, "bytes": lambda size: size}


@function
def extra_compression(group: Runs, variant: str, over: str) -> Outcome:
    """(compression of `variant` - that of `over`) / communication of `variant`, all on the main line."""
    return paired(
        group,
        [variant, over],
        number=lambda one, base: ratio(
            max(0.0, one["phases"]["compress"] - base["phases"]["compress"]),
            one["phases"]["communicate"] + one["phases"]["wait"],
        ),
    )


# --- collectives (Table I, Figure 9)


def _growth(group: Runs, by: str, number: Callable[[pd.DataFrame], pd.Series], reason: str) -> Outcome:
    """number(seconds of each algorithm by workers and bytes) at the most workers (`ranks`) or bytes / the same at the
    fewest, a seed each: of the places equal in the other one those where they are most, the larger one where tied."""
    other, values = "ranks" if by == "bytes" else "bytes", {}
    for seed, of in group.rows[group.rows["ranks"] > 1].groupby("seed"):
        found = number(of.groupby(["ranks", "bytes", "algorithm"])["seconds.median"].last().unstack()).dropna()
        lines = {(len(line), same): line for same, line in found.groupby(other)}
        if lines and len(line := lines[max(lines)]) > 1:
            values[seed] = float(line.iloc[-1] / line.iloc[0])
    return Outcome(values) if values else Outcome(reason=reason)


@probe_function("sparse_collectives")
def collective_growth(group: Runs, algorithm: str, by: str) -> Outcome:
    """(seconds / unit) with most workers / the same with fewest; unit: log2 P or P - 1, of the powers of two that the
    formulas are for. Near 1: it grows like that.

    by `bytes`: seconds a byte of the gradient, the largest against the smallest, in the largest world with several.
    """

    def number(seconds: pd.DataFrame) -> pd.Series:
        units = [UNITS[by](size if by == "bytes" else P) if by == "bytes" or P & (P - 1) == 0 else math.nan
                 for P, size in seconds.index]  # fmt: skip
        return seconds[algorithm] / units

    return _growth(group, by, number, f"{algorithm} was not run at several sizes")


@probe_function("sparse_collectives")
def advantage_growth(group: Runs, of: str, over: str, by: str) -> Outcome:
    """(seconds of `over` / of `of`) at the most workers or bytes / the same at the fewest; above 1: it grows."""
    return _growth(group, by, lambda s: s[over] / s[of], f"{of} and {over} were not run at several {by}")


# --- selection (Figure 11)


def _share(runs: Sequence[Summary], model: str, gpu: bool) -> float | None:
    found = [row for run in runs for row in run["result"]["rows"] if (row["model"], row["method"]) == (model, "exact")]
    return median(row["share"] for row in found if row["device"].lower().startswith("cpu") != gpu)


@probe_function("selection")
def selection_share(group: Runs, model: str, gpu: bool = False) -> Outcome:
    """Seconds of selecting k gradients exactly / the published seconds of an iteration's computation (Table VI)."""
    reason = f"no exact selection of {model} on a {'GPU' if gpu else 'CPU'}"
    return by_seed(group, lambda runs: _share(runs, model, gpu), reason)


@probe_function("selection")
def gpu_gain(group: Runs, model: str) -> Outcome:
    """Seconds of selecting on the CPU / on the GPU."""

    def gain(runs: list[Summary]) -> float | None:
        cpu, gpu = (_share(runs, model, on) for on in (False, True))
        return cpu / gpu if cpu and gpu else None

    return by_seed(group, gain, f"no exact selection of {model} on both CPU and GPU")


# --- bandwidth


@function
def crossing_gbit(group: Runs, over: str, alpha_ms: float) -> Outcome:
    """The bandwidth at which gTop-k's step takes as long as that of `over`, interpolated between logarithms; the least
    or the most bandwidth that was run where it is slower, or faster, at all of them."""
    frame, found = group.frame, {}
    for seed, of in frame[frame["factors.alpha_ms"].astype(float) == alpha_ms].groupby("seed"):
        seconds = of.groupby([of["factors.gbit"].astype(float), "factors.method"])["step_s"].median().unstack()
        if {over, "gTop-k"} <= set(seconds):
            found[int(seed)] = crossing((seconds[over] / seconds["gTop-k"]).dropna())
    return Outcome(found) if found else Outcome(reason=f"no results for {over} and gTop-k with {alpha_ms:g} ms")


def crossing(speedup: pd.Series) -> float:
    """Where a speed-up, by bandwidth, becomes 1."""
    at, gain = [[math.log(value) for value in values] for values in (speedup.index, speedup)]
    if gain[0] <= 0 or gain[-1] > 0:
        return float(speedup.index[0 if gain[0] <= 0 else -1])
    place = next(place for place, value in enumerate(gain) if value <= 0)
    share = gain[place - 1] / (gain[place - 1] - gain[place])
    return math.exp(at[place - 1] + share * (at[place] - at[place - 1]))
