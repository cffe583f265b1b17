"""How MLflow's pages of an experiment open: its runs by variant, what tells them apart as columns, targets as lines.

MLflow keeps the state of a page as a tag of the experiment, under a name that a link can ask for. The format is its own
and not promised: without it the pages are merely in their usual state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from repro.answers.mlflow.format import SECTIONS, TARGET
from repro.training.evaluation.metrics import METRICS

SHARED_VIEW = "time-to-accuracy"  # the name of the state
CURVES = "Time to accuracy"
CLOSED = (TARGET, "Model metrics", "System metrics")  # sections, two of them MLflow's own
NAME = "attributes.`Run Name`"
SAID = ("strategy", "workers", "testbed", "kind", "scale", "seed")  # tags that are columns in any case
MOST_COLUMNS = 8  # of parameters that differ
NUMBERS = ("speed/samples_per_s", "step/mean_ms")


def page(base: str, experiment: str) -> str:
    """The address of an MLflow experiment's table of runs, in the state of its shared view.

    Without the rest of the address MLflow opens its page for language-model projects, which is empty.
    """
    shown = f"workflowType=machine_learning&compareRunsMode=TABLE&viewStateShareKey={SHARED_VIEW}"
    return f"{base}/#/experiments/{experiment}/runs?{shown}"


def shared_view(metric: str, runs: Sequence[Any]) -> dict[str, Any]:
    """The state of the page for an experiment scored by `metric` that has these runs (MLflow's `data` of each)."""
    targets = sorted({name for run in runs for name in run.metrics if name.startswith(f"{TARGET}/")})
    by_time = {"xAxisKey": "time-relative", "useGlobalXaxisKey": True}
    by_epoch = {"xAxisKey": "metric", "selectedXAxisMetricKey": "epoch", "useGlobalXaxisKey": False}
    range_y = where_it_matters(metric, runs)
    charts = [
        (f"{metric} over time (s)", [metric, *targets], range_y, by_time),
        (f"{metric} over epochs", [metric], range_y, by_epoch),  # where MLflow draws a line of two points too short
        ("test_loss over time (s)", ["test_loss"], {}, by_time),
    ]
    shared = {"type": "LINE", "metricSectionId": CURVES, "isGenerated": False, "deleted": False}
    shared |= {"lineSmoothness": 0, "scaleType": "linear", "xAxisScaleType": "linear", "displayPoints": False}
    sections = [(name, name not in CLOSED) for name in (CURVES, *SECTIONS, *CLOSED)]
    return {
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": "group"}]},
        "selectedColumns": columns(metric, runs),
        "columnOrder": [NAME],
        "columnWidths": {NAME: 330},  # pixels: MLflow's own are too few for a variant's name
        "globalLineChartConfig": {"xAxisKey": "time-relative"},
        "runsHiddenMode": "SHOW_ALL",
        "isAccordionReordered": True,
        "compareRunSections": [
            {"uuid": name, "name": name, "display": open_, "isReordered": True} for name, open_ in sections
        ],
        "compareRunCharts": [
            {**shared, "uuid": title, "metricKey": keys[0], "selectedMetricKeys": keys, "displayName": title}
            | {"range": limits, **axis}
            for title, keys, limits, axis in charts
        ],
    }


def columns(metric: str, runs: Sequence[Any]) -> list[str]:
    """What tells runs apart: a few tags, the parameters that differ (the grid's factors first), the score, the times
    to targets and the speed."""
    values: dict[str, set[str | None]] = {}
    for name in sorted({name for run in runs for name in run.params}, key=lambda name: not name.startswith("factors.")):
        values[name] = {run.params.get(name) for run in runs}
    differ = [name for name, found in values.items() if len(found) > 1 and name.split(".")[0] not in (*SAID, "variant")]
    numbers = {name for run in runs for name in run.metrics}
    shown = [f"final/{metric}", *sorted(name for name in numbers if name.startswith("time_to/")), *NUMBERS]
    return [
        *(f"tags.`{name}`" for name in SAID),
        *(f"params.`{name}`" for name in differ[:MOST_COLUMNS]),
        *(f"metrics.`{name}`" for name in shown if name in numbers),
    ]


def where_it_matters(metric: str, runs: Sequence[Any]) -> dict[str, float]:
    """The range of a chart of the metric: all final scores and targets, and below them (above them, where lower is
    better) as much room again; {}, which is MLflow's own range, where they are one value or none."""
    ends = [
        value
        for run in runs
        for name, value in run.metrics.items()
        if (name == f"final/{metric}" or name.startswith(f"{TARGET}/")) and math.isfinite(value)
    ]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    if (height := high - low) <= 0:
        return {}
    margin = height / 5
    if metric in METRICS and METRICS[metric].lower_is_better:
        return {"yMin": low - margin, "yMax": high + height}
    return {"yMin": low - height, "yMax": high + margin}
