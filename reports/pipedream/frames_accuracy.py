"""Figures 10 to 12: accuracy of the small workload against full-size time, as data frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repro.reports.compute import final
from repro.reports.compute_pipedream import epochs_to, goal, row_rate
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.pipedream.experiments import BY_NAME
from repro.reports.pipedream.published import OVER_BSP, Published
from repro.reports.pipelines import ASP, BSP, PIPEDREAM, Runs, machines
from repro.reporting.stats import DASH, TIMES, number, show, show_target, spread
from repro.reports.style import metric_name

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["figure", "row", "setting", "strategy", "machines", "seed", "epoch", "hours", "metric"]
SHARE = 48 / 68  # of the advertised accuracy: where ASP is compared


@dataclass(frozen=True)
class Curve:
    """A curve of a figure: a strategy in a row of Table 1."""

    figure: str
    row: str
    strategy: str

    @property
    def variant(self) -> str:
        """Of the accuracy runs."""
        return f"{self.strategy}-{machines(self.row)}"


CURVES = (
    *(Curve("Figure 10 (a)", "table1-vgg16-8a", name) for name in (BSP, PIPEDREAM)),
    *(Curve("Figure 11 (a)", "table1-vgg16-8b", name) for name in (BSP, PIPEDREAM)),
    *(Curve("Figure 12", "table1-vgg16-4a", name) for name in (BSP, PIPEDREAM, ASP)),
    *(Curve("Figure 12", "table1-vgg16-16a", name) for name in (BSP, PIPEDREAM)),
)


def images(paper: Published) -> float:
    """Training images of ILSVRC12, as the paper has them."""
    return 1e6 * paper.value("Data", "ILSVRC12", "all", "training images")


def epoch_hours(runs: Runs | None, curve: Curve, paper: Published) -> tuple[float | None, str]:
    """(hours that an epoch of ILSVRC12 takes in a row, a note)."""
    rate, note = row_rate(runs, curve.row, curve.strategy) if runs else (None, "")
    return (images(paper) / rate / 3600 if rate else None), note


def points(group: Group, runs: Runs | None, paper: Published) -> pd.DataFrame:
    """A row a curve, seed and evaluation; hours are missing where the row was not run."""
    import pandas as pd

    rows = []
    for curve in CURVES:
        hours, _ = epoch_hours(runs, curve, paper)
        for seed, run in group.runs(curve.variant).items():
            for point in run["curve"]:
                if point.get(run["metric"]) is not None:
                    rows.append((curve.figure, curve.row, curve.variant, curve.strategy, machines(curve.row), seed,
                                 point["epoch"], hours * point["epoch"] if hours else math.nan,
                                 point[run["metric"]]))  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def targets(group: Group) -> tuple[float | None, float | None]:
    """(what is in the place of the advertised accuracy, what is in the place of ASP's 48 %)."""
    return goal(list(group.summaries)), goal(list(group.summaries), SHARE)


def table(group: Group, runs: Runs | None, paper: Published) -> pd.DataFrame:
    """A row a curve: epochs to the target, hours of an epoch, their product, and PipeDream's gain over BSP."""
    import pandas as pd

    target, lower = targets(group)
    rows = []
    for curve in CURVES:
        summaries = list(group.runs(curve.variant).values())
        if not summaries:
            continue
        hours, note = epoch_hours(runs, curve, paper)
        line = {
            "figure": curve.figure,
            "row of Table 1": BY_NAME[curve.row].label,
            "strategy": curve.strategy,
            "lr": _rates(summaries),
            f"final {metric_name(group.metric)}": show(spread(map(final, summaries)), decimals=4, seeds=False),
            "hours an epoch": (number(hours) if hours else DASH) + (" (ideal)" if note else ""),
        }
        for goal_of, name in ((target, "target"), (lower, "48/68 of it")):
            found = [epochs_to(run, goal_of) for run in summaries] if goal_of else []
            line[f"epochs to the {name}" if name == "target" else f"epochs to {name}"] = show_target(found)
            line[f"hours to the {name}" if name == "target" else f"hours to {name}"] = (
                show_target([hours * epochs for epochs in found]) if hours else DASH
            )
        line["PipeDream over BSP, paper"] = _printed(curve, paper)
        rows.append(line)
    return pd.DataFrame(rows)


def _rates(runs: Sequence[Summary]) -> str:
    return " / ".join(sorted({f"{run['optimizer'].get('lr', math.nan):g}" for run in runs}))


def _printed(curve: Curve, paper: Published) -> str:
    if curve.strategy != PIPEDREAM:
        return DASH
    return (paper.row(BY_NAME[curve.row], PIPEDREAM, OVER_BSP) or DASH) + TIMES
