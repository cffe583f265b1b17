"""Tables of the validation: a row a step time, and errors of simulated times by group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from repro.answers.claims.residuals import APART, ratio_errors
from repro.records.record import Found

MEDIAN_GOAL, P95_GOAL = 0.05, 0.15  # fixed before any run
LATER_MEDIAN_GOAL, LATER_P95_GOAL, RATIO_GOAL = 0.03, 0.10, 0.05  # set later


def order_of(run: Found) -> list[str]:
    """The place of a run among the rows."""
    identity, testbed = run.identity, run.identity.testbed
    place = (identity.experiment, testbed.name, testbed.launcher, run.label, identity.seed, identity.scale)
    return [str(part) for part in place]


def steps(runs: Sequence[Found]) -> pd.DataFrame:
    """A row a strategy, size, world size and testbed, in milliseconds; error: simulated over observed less 1, in %."""
    rows = [
        {
            "run": run.record.name,
            "experiment": run.identity.experiment,
            "counts": run.identity.experiment not in APART,
            "testbed": run.identity.testbed.name,
            "launcher": run.identity.testbed.launcher,
            "workers": run.identity.workers,
            "slowed": run.identity.factors.get("slowed"),
            "strategy": row["strategy"],
            "variant": row["variant"],
            "bytes": row["bytes"],
            "size": _size(row["bytes"]),
            "seed": run.identity.seed,
            "observed": 1e3 * row["observed_s"]["median"],
            "spread": 100 * (row["observed_s"]["max"] - row["observed_s"]["min"]) / row["observed_s"]["median"],
            "simulated": 1e3 * row["simulated_s"],
            "error": 100 * (row["simulated_s"] / row["observed_s"]["median"] - 1),
        }
        for run in runs
        for row in run.probe.found["rows"]
    ]
    return pd.DataFrame(rows)


def _size(nbytes: int) -> str:
    return f"{nbytes // 1024} KB" if nbytes < 2**20 else f"{nbytes // 2**20} MB"


def errors(steps: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """A row a group (one of all without `by`), in %: median and 95th percentile of |error|, the worst, and the mean.

    spread: the range of an observed step over its turns, which no model's error can be below.
    """
    if steps.empty:
        return steps
    rows = []
    for key, group in steps.groupby(list(by), sort=False) if by else [((), steps)]:
        size = group["error"].abs()
        median, p95 = size.median(), size.quantile(0.95)
        met = median < 100 * MEDIAN_GOAL and p95 < 100 * P95_GOAL
        row = {"times": len(group), "median": median, "p95": p95, "worst": group["error"].loc[size.idxmax()]}
        row |= {"mean": group["error"].mean(), "spread": group["spread"].median(), "met": "yes" if met else "no"}
        rows.append(dict(zip(by, key)) | row)
    return pd.DataFrame(rows)


def counted(steps: pd.DataFrame) -> pd.DataFrame:
    """The steps that count for the goal."""
    return steps if steps.empty else steps[steps["counts"]]


def ratios(steps: pd.DataFrame) -> pd.DataFrame:
    """A row a number of workers, and one of all: the error in % of the ratio of two strategies' simulated steps.

    The two steps are of one run and size.
    """
    every = counted(steps)
    if every.empty:
        return every
    off = {str(workers): _ratio_errors(steps) for workers, steps in every.groupby("workers")} | {
        "all": _ratio_errors(every)
    }
    rows = []
    for workers, some in off.items():
        if some:
            median, p95 = (100 * float(np.quantile(some, share)) for share in (0.5, 0.95))
            met = "yes" if p95 < 100 * RATIO_GOAL else "no"
            rows.append({"workers": workers, "ratios": len(some), "median": median, "p95": p95, "met": met})
    return pd.DataFrame(rows)


def slowed(steps: pd.DataFrame) -> pd.DataFrame:
    """A row a strategy and size of the experiment `slowed`: the error in % by how many times all but the host is
    slower."""
    varied = steps if steps.empty else steps[steps["slowed"].notna()]
    if varied.empty:
        return varied
    wide = varied.pivot_table("error", ["variant", "bytes"], "slowed", sort=False)
    return wide.rename(columns=lambda factor: f"by {float(factor):g}").reset_index()


def worst(steps: pd.DataFrame) -> pd.DataFrame:
    """The 12 step times with the greatest errors, above the goal for the 95th percentile; the worst first."""
    if steps.empty:
        return steps
    missed = steps[steps["counts"] & (steps["error"].abs() > 100 * P95_GOAL)]
    return missed.loc[missed["error"].abs().sort_values(ascending=False).index].head(12)


def _ratio_errors(steps: pd.DataFrame) -> list[float]:
    groups = zip(steps["run"], steps["bytes"], strict=True)
    return ratio_errors(zip(groups, steps["observed"], steps["simulated"], strict=True))
