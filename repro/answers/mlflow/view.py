"""The state in which MLflow's pages of an experiment open: runs by variant, columns that differ, lines of targets.

MLflow stores the state of a page as a tag of the experiment, and a link can name it. The format is undocumented; if it
changes, pages open in MLflow's default state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from repro.answers.mlflow.format import SECTIONS, TARGET
from repro.training.evaluation.metrics import METRICS

SHARED_VIEW = "time-to-accuracy"  # the name of the state
CURVES = "Time to accuracy"
CLOSED = (TARGET, "Model metrics", "System metrics")  # collapsed sections; two are MLflow's own
NAME = "attributes.`Run Name`"
TAGS = ("strategy", "workers", "testbed", "kind", "scale", "seed")  # columns of every table
MOST_COLUMNS = 8  # of parameters that differ
NUMBERS = ("speed/samples_per_s", "step/mean_ms")


def page(base: str, experiment: str) -> str:
    """The address of an experiment's table of runs in the shared state.

    Without the query MLflow opens its page for language models, which is empty.
    """
    shown = f"workflowType=machine_learning&compareRunsMode=TABLE&viewStateShareKey={SHARED_VIEW}"
    return f"{base}/#/experiments/{experiment}/runs?{shown}"


def shared_view(metric: str, runs: Sequence[Any]) -> dict[str, Any]:
    """The state of the page of an experiment with these runs (MLflow's `data` of each) and the score `metric`."""
    targets = sorted({name for run in runs for name in run.metrics if name.startswith(f"{TARGET}/")})
    by_time = {"xAxisKey": "time-relative", "useGlobalXaxisKey": True}
    by_epoch = {"xAxisKey": "metric", "selectedXAxisMetricKey": "epoch", "useGlobalXaxisKey": False}
    range_y = where_it_matters(metric, runs)
    charts = [
        (f"{metric} over time (s)", [metric, *targets], range_y, by_time),
        (
            f"{metric} over epochs",
            [metric],
            range_y,
            by_epoch,
        ),  # no targets: MLflow draws a line of two points too short
        ("test_loss over time (s)", ["test_loss"], {}, by_time),
    ]
    shared = {"type": "LINE", "metricSectionId": CURVES, "isGenerated": False, "deleted": False}
    shared |= {"lineSmoothness": 0, "scaleType": "linear", "xAxisScaleType": "linear", "displayPoints": False}
    sections = [(name, name not in CLOSED) for name in (CURVES, *SECTIONS, *CLOSED)]
    return {
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": "group"}]},
        "selectedColumns": columns(metric, runs),
        "columnOrder": [NAME],
        "columnWidths": {NAME: 330},  # pixels; MLflow's default cuts off names of variants
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
    """The columns of the table: tags, parameters that differ (factors first), score, times to targets, speed."""
    values: dict[str, set[str | None]] = {}
    for name in sorted({name for run in runs for name in run.params}, key=lambda name: not name.startswith("factors.")):
        values[name] = {run.params.get(name) for run in runs}
    differ = [name for name, of in values.items() if len(of) > 1 and name.split(".")[0] not in (*TAGS, "variant")]
    numbers = {name for run in runs for name in run.metrics}
    shown = [f"final/{metric}", *sorted(name for name in numbers if name.startswith("time_to/")), *NUMBERS]
    return [
        *(f"tags.`{name}`" for name in TAGS),
        *(f"params.`{name}`" for name in differ[:MOST_COLUMNS]),
        *(f"metrics.`{name}`" for name in shown if name in numbers),
    ]


def where_it_matters(metric: str, runs: Sequence[Any]) -> dict[str, float]:
    """The range of the metric's chart: the final scores and targets, and as much room again below them (above, if lower
    is better); {}, MLflow's default, for less than two values."""
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
