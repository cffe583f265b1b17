"""The validation of the simulation as data frames: a row a step time, errors by what they were grouped by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.reports import probes
from repro.reports.groups import finished
from repro.reports.loading import Summary
from repro.reports.sweeps import QUICK

if TYPE_CHECKING:
    import pandas as pd

PAPER = "validation"
# Fixed in the issue that asked for the validation, before any run.
MEDIAN_GOAL, P95_GOAL = 0.05, 0.15
COLUMNS = [
    *("experiment", "testbed", "fabric", "workers", "strategy", "setting", "twin", "bytes", "seed"),
    *("measured_s", "measured_min_s", "measured_max_s", "simulated_s", "computation_s", "error"),
]


def latest(summaries: Sequence[Summary]) -> list[Summary]:
    """Of each experiment, testbed, launcher, variant, seed and machine the run that finished last."""
    found: dict[tuple, Summary] = {}
    for one in sorted((s for s in summaries if s["program"] == PAPER), key=finished):
        place = (one["experiment"], one["testbed"], one["launcher"], one["setting"], one["seed"])
        found[(*place, one["hardware"]["class"], one.get("scale"))] = one
    order = sorted(found, key=lambda key: tuple(map(str, key)))
    scales = {key[-1] for key in order}
    full = scales - {QUICK} or scales  # a trial of the machinery says nothing beside a whole run
    return [found[key] for key in order if key[-1] in full]


def load(root) -> list[Summary]:
    """The runs that the page shows."""
    return latest(probes.load(PAPER, root))


def steps(summaries: Sequence[Summary]) -> pd.DataFrame:
    """A row a strategy, size, world size and testbed; error: simulated over measured, less 1."""
    import pandas as pd

    rows = []
    for one in summaries:
        for row in one["result"]["rows"]:
            seen = row["observed_s"]
            rows.append(
                {
                    "experiment": one["experiment"],
                    "testbed": one["testbed"],
                    "fabric": one["fabric"],
                    "workers": one["workers"],
                    "strategy": row["strategy"],
                    "setting": row["setting"],
                    "twin": row["twin"],
                    "bytes": row["bytes"],
                    "seed": one["seed"],
                    "measured_s": seen["median"],
                    "measured_min_s": seen["min"],
                    "measured_max_s": seen["max"],
                    "simulated_s": row["simulated_s"],
                    "computation_s": row["computation_s"],
                    "error": row["simulated_s"] / seen["median"] - 1,
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def errors(found: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """A row a group: how many step times, median and 95th percentile of |error|, the worst, whether the goal is met.

    measured spread: the median over the group of (max - min) / median of the turns of one step time, which no model can
    be better than.
    """
    import pandas as pd

    rows = []
    for key, own in found.groupby(list(by), sort=False) if by else [((), found)]:
        size = own["error"].abs()
        spread = (own["measured_max_s"] - own["measured_min_s"]) / own["measured_s"]
        rows.append(
            {
                **dict(zip(by, key if isinstance(key, tuple) else (key,))),
                "step times": len(own),
                "median error": size.median(),
                "95th percentile": size.quantile(0.95),
                "worst": own["error"].loc[size.idxmax()],
                "mean (signed)": own["error"].mean(),
                "measured spread": spread.median(),
                "goal met": "yes" if size.median() < MEDIAN_GOAL and size.quantile(0.95) < P95_GOAL else "no",
            }
        )
    return pd.DataFrame(rows)


def worst(found: pd.DataFrame, count: int) -> pd.DataFrame:
    """The step times that are furthest off, the worst first; only those above the goal's percentile."""
    missed = found[found["error"].abs() > P95_GOAL]
    return missed.loc[missed["error"].abs().sort_values(ascending=False).index].head(count)


def networks(summaries: Sequence[Summary]) -> pd.DataFrame:
    """A row a run and network: what was fitted, how well, and what the links were measured to carry."""
    import pandas as pd

    rows = []
    for one in summaries:
        links = one["hardware"].get("links") or {}
        for name, fit in (one["result"]["networks"] or {}).items():
            off = [abs(point["fitted_s"] / point["seconds"] - 1) for point in fit["points"]]
            rows.append(
                {
                    "testbed": one["testbed"],
                    "fabric": one["fabric"],
                    "workers": one["workers"],
                    "fitted to": name,
                    "alpha (µs)": 1e6 * fit["alpha_s"],
                    "beta (ns/byte)": 1e9 * fit["beta_s_per_byte"],
                    "worst point": max(off),
                    **{key: value for key, value in links.items() if isinstance(value, int | float)},
                }
            )
    return pd.DataFrame(rows)
