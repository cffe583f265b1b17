"""The data behind the figures, as data frames: from a group of summaries, before anything is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from repro.reporting.stats import spread
from repro.reports.groups import Group
from repro.reports.style import COMPUTATION

if TYPE_CHECKING:
    import pandas as pd

TRAINING, PER_STEP = "s of training", "ms an iteration"
# bottom to top of a bar
STACK = (*COMPUTATION, "compress", "communicate", "wait")


def curves(group: Group) -> pd.DataFrame:
    """One row a variant, seed and evaluation: epoch, training seconds, metric (and losses as recorded)."""
    import pandas as pd

    rows = [
        {"kind": group.kind, "setting": variant, "seed": seed, "iteration": point["iteration"],
         "epoch": point["epoch"], "train_s": point["train_s"], "metric": point[group.metric],
         "loss": point.get("loss"), "test_loss": point.get("test_loss")}
        for variant in group.covered() for seed, run in group.runs(variant).items() for point in run["curve"]
        if point.get(group.metric) is not None
    ]  # fmt: skip
    columns = ["kind", "setting", "seed", "iteration", "epoch", "train_s", "metric", "loss", "test_loss"]
    return pd.DataFrame(rows, columns=columns)


def bands(points: pd.DataFrame) -> pd.DataFrame:
    """One row a variant and evaluation: median training seconds; median, low and high of the metric over seeds."""
    import pandas as pd

    rows = []
    for (variant, iteration), at in points.groupby(["setting", "iteration"], sort=False):
        found = spread(at["metric"])
        rows.append(
            {
                "kind": at["kind"].iloc[0],
                "setting": variant,
                "iteration": iteration,
                "epoch": at["epoch"].iloc[0],
                "train_s": float(at["train_s"].median()),
                "metric": found.median,
                "low": found.low,
                "high": found.high,
                "seeds": found.n,
                "interval": found.interval,
            }
        )
    columns = ["kind", "setting", "iteration", "epoch", "train_s", "metric", "low", "high", "seeds", "interval"]
    return pd.DataFrame(rows, columns=columns)


def breakdown(group: Group) -> pd.DataFrame:
    """One row a variant: seconds of end-to-end training by phase (medians over seeds), hidden communication, top-1.

    Where only time was modelled: milliseconds an iteration, because how many iterations there were means nothing.

    Phases are per-iteration means over the worker ranks times the iterations; with breakdown runs they come from
    those, which synchronise the device at every phase, and may add up to more than `train_s`.
    """
    import pandas as pd

    rows = []
    for variant in group.variants:
        phased = list(group.phase_runs(variant).values())
        if not phased:
            continue
        scale = {id(c): 1e3 if group.timing_only else c["iterations"] for c in phased}
        seconds = {name: snap(spread(c["phases"][name] * scale[id(c)] for c in phased).median) for name in STACK}
        hidden = spread(c["communication"]["overlapped_s"] * scale[id(c)] for c in phased)
        runs = group.runs(variant).values()
        rows.append(
            {
                "kind": group.kind,
                "setting": variant,
                "seeds": len(phased),
                "unit": PER_STEP if group.timing_only else TRAINING,
                "breakdown_cells": bool(phased[0]["breakdown"]),
                **seconds,
                "hidden": hidden.median,
                "train_s": spread(c["final"]["train_s"] for c in runs).median,
                "step_ms": spread(1e3 * c["step"]["mean_s"] for c in runs).median,
                "metric": math.nan if group.timing_only else spread(c["final"][group.metric] for c in runs).median,
            }
        )
    columns = ["kind", "setting", "seeds", "unit", "breakdown_cells", *STACK, "hidden", "train_s", "step_ms", "metric"]
    return pd.DataFrame(rows, columns=columns)


def targets(group: Group) -> list[str]:
    """Every target that a run of the group had, as its key, lowest first."""
    return sorted({key for run in group.summaries for key in run["targets"]}, key=float)


def snap(seconds: float) -> float:
    """Zero for what is only rounding (below a picosecond)."""
    return 0.0 if abs(seconds) < 1e-12 else seconds


def inset(points: pd.DataFrame, median: pd.DataFrame, goals: list[float]) -> tuple[tuple, tuple]:
    """((x from, to), (y from, to)) of the inset: where the curves come up to and pass the targets.

    From .02 below the lowest target to just above the best value; as long as the slowest variant needs to reach the
    middle target, or the whole time where one does not. Without any value up there: the upper half of the values.
    """
    best, end = float(points["metric"].max()), float(median["train_s"].max())
    low = min(goals) - 0.02 if goals else best - 0.05
    if best <= low + 0.005:
        low = best - (best - float(points["metric"].min())) / 2
    goal = sorted(goals)[len(goals) // 2] if goals else low
    firsts = [float(at.loc[at["metric"] >= goal, "train_s"].min()) for _, at in median.groupby("setting")]
    stop = end if any(math.isnan(first) for first in firsts) else max(firsts)
    margin = 0.05 * max(best - low, 0.005)
    return (0.0, 1.04 * stop if stop > 0 else 1.0), (low, best + 2 * margin)


def trace(group: Group, variants: list[str]) -> pd.DataFrame:
    """Recorded intervals of the first seed of each variant, in milliseconds from the variant's first interval."""
    import pandas as pd

    rows = []
    for variant in variants:
        runs = [run for run in group.phase_runs(variant).values() if run.get("trace")]
        if not runs:
            continue
        intervals = runs[0]["trace"]
        first = min(i["start"] for i in intervals)
        rows += [
            {
                "kind": group.kind,
                "setting": variant,
                "seed": runs[0]["seed"],
                "rank": i["rank"],
                "line": i["line"],
                "name": i["name"],
                "start_ms": 1e3 * (i["start"] - first),
                "end_ms": 1e3 * (i["end"] - first),
            }
            for i in sorted(
                (i for i in intervals if i["end"] > i["start"]),
                key=lambda i: (i["rank"], i["line"] != "main", i["line"], i["start"]),
            )
        ]
    return pd.DataFrame(rows, columns=["kind", "setting", "seed", "rank", "line", "name", "start_ms", "end_ms"])
