"""The state in which MLflow's pages of an experiment open: runs by variant, time to accuracy, the parts of a step.

MLflow stores the state of a page as a tag of the experiment, and a link can name it. The format is undocumented; if it
changes, pages open in MLflow's default state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from repro.answers.mlflow.format import SECTIONS, TO_TARGET, WARNINGS
from repro.records.run_columns import SHARES
from repro.training.evaluation.metrics import METRICS

SHARED_VIEW = "time-to-accuracy"  # the name of the state
VIEW = f"mlflow.sharedViewState.{SHARED_VIEW}"  # the tag
CURVES, BREAKDOWN = "Time to accuracy", "Breakdown of a step (ms)"
CLOSED = ("phases", "communication", "Model metrics", "System metrics")  # collapsed sections; two are MLflow's own
MOST_PARTS = 8  # charts of parts of a step
NAME = "attributes.`Run Name`"
TAGS = ("strategy", "workers", "testbed", "kind", "scale", "seed")  # columns of every table
MOST_COLUMNS = 8  # of parameters that differ
STEP = "step/mean_ms"
NUMBERS = ("speed/samples_per_s", STEP)


def page(base: str, experiment: str) -> str:
    """The address of an experiment's charts in the shared state.

    Without the query MLflow opens its page for language models, which is empty.
    """
    shown = f"workflowType=machine_learning&compareRunsMode=CHART&viewStateShareKey={SHARED_VIEW}"
    return f"{base}/#/experiments/{experiment}/runs?{shown}"


def shared_view(metric: str, runs: Sequence[Any]) -> dict[str, Any]:
    """The state of the page of an experiment with these runs (MLflow's `data` of each) and the score `metric`."""
    by_time = {"xAxisKey": "time-relative", "useGlobalXaxisKey": True}
    by_epoch = {"xAxisKey": "metric", "selectedXAxisMetricKey": "epoch", "useGlobalXaxisKey": False}
    range_y = where_it_matters(metric, runs)
    lines = [
        (f"{metric} over time (s)", metric, range_y, by_time),
        (f"{metric} over epochs", metric, range_y, by_epoch),
        ("test_loss over time (s)", "test_loss", {}, by_time),
    ]
    known = {name for run in runs for name in run.metrics}
    lines = [line for line in lines if not runs or line[1] in known]  # timing only has no curve
    shared = {"type": "LINE", "metricSectionId": CURVES, "isGenerated": False, "deleted": False}
    shared |= {"lineSmoothness": 0, "scaleType": "linear", "xAxisScaleType": "linear", "displayPoints": False}
    bar = {
        "type": "BAR",
        "metricSectionId": BREAKDOWN,
        "isGenerated": False,
        "deleted": False,
        "runsCountToCompare": 20,
    }
    sections = [(name, name not in CLOSED) for name in dict.fromkeys((CURVES, BREAKDOWN, *SECTIONS, *CLOSED))]
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
            {**shared, "uuid": title, "metricKey": key, "selectedMetricKeys": [key], "displayName": title}
            | {"range": limits, **axis}
            for title, key, limits, axis in lines
        ]
        + [bar | {"uuid": f"bar/{name}", "metricKey": name, "metricSectionId": CURVES} for name in to_targets(runs)]
        + [bar | {"uuid": f"bar/{name}", "metricKey": name} for name in parts_of_step(runs)],
    }


def to_targets(runs: Sequence[Any]) -> list[str]:
    """The metrics of the time, and of the epochs, to a target that any run has."""
    return sorted({name for run in runs for name in run.metrics if name.startswith(TO_TARGET)}, reverse=True)


def parts_of_step(runs: Sequence[Any]) -> list[str]:
    """The metrics of a step's duration and of its longest parts in any run, the longest first."""
    longest: dict[str, float] = {}
    for run in runs:
        for name, value in run.metrics.items():
            if name == STEP or (name.startswith("phases/") and value > 0):
                longest[name] = max(value, longest.get(name, 0.0))
    parts = sorted(longest.keys() - {STEP}, key=lambda name: -longest[name])
    return [*([STEP] if STEP in longest else []), *parts][:MOST_PARTS]


def columns(metric: str, runs: Sequence[Any]) -> list[str]:
    """The columns of the table: tags, warnings if any, parameters that differ (factors first), score, times to targets,
    speed."""
    values: dict[str, set[str | None]] = {}
    names = {name for run in runs for name in run.params}
    for name in sorted(names, key=lambda name: (not name.startswith("factors."), name)):
        values[name] = {run.params.get(name) for run in runs}
    differ = [
        name for name, distinct in values.items() if len(distinct) > 1 and name.split(".")[0] not in (*TAGS, "variant")
    ]
    numbers = {name for run in runs for name in run.metrics}
    shown = [f"final/{metric}", *to_targets(runs), *NUMBERS]
    tags = [*([WARNINGS] if any(WARNINGS in run.tags for run in runs) else []), *TAGS]
    return [
        *(f"tags.`{name}`" for name in tags),
        *(f"params.`{name}`" for name in differ[:MOST_COLUMNS]),
        *(f"metrics.`{name}`" for name in shown if name in numbers),
    ]


def where_it_matters(metric: str, runs: Sequence[Any]) -> dict[str, float]:
    """The range of the metric's chart: the final scores, and as much room again below them (above, if lower is better),
    but no score that cannot be; {}, MLflow's default, for less than two values."""
    ends = [
        value
        for run in runs
        for name, value in run.metrics.items()
        if name == f"final/{metric}" and math.isfinite(value)
    ]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    if (height := high - low) <= 0:
        return {}
    margin = height / 5
    if metric in METRICS and METRICS[metric].lower_is_better:
        return {"yMin": max(0.0, low - margin), "yMax": high + height}
    return {"yMin": max(0.0, low - height), "yMax": min(1.0, high + margin) if metric in SHARES else high + margin}
