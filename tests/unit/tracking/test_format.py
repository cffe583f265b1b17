"""What MLflow is told of a run, and how its pages open: names, kinds, points, columns, ranges."""

from __future__ import annotations

import json
import math

import pytest

from repro.tracking.format import curve_points, final_metrics, kind_of, parameters, tags, target_lines
from repro.tracking.view import MOST_COLUMNS, shared_view, where_it_matters
from tests.unit.tracking.test_tracking import evaluation, summary_of


def test_a_run_of_slept_computation_is_emulated_before_its_summary_says_so():
    config = {"program": "validation", "probe": {"computation": "sleep"}, "testbed": {"kind": "measured"}}
    assert (
        kind_of(config) == "emulated" and kind_of(config | {"probe": None, "min_compute_s": 0.5}) == "measured, padded"
    )
    assert tags(config | {"key": "k"})["kind"] == "emulated" and kind_of({"testbed": "here"}) is None


def test_formats():
    points = curve_points([{"iteration": 5, "train_s": 0.5, "loss": None, "top1": 1, "flag": True, "event": "e"}], 1000)
    assert [(each.key, each.step, each.timestamp) for each in points if not math.isnan(each.value)] == [
        ("train_s", 5, 1500),
        ("top1", 5, 1500),
    ]
    assert parameters({"a": {"b +": 1}, "scales": {"x": 1}}) == {"a.b _": "1"}
    assert "final/test_loss" not in final_metrics(summary_of([]))
    assert tags({"key": "k", "dataset": "mnist", "hardware": "cpu"})["dataset"] == "mnist"
    curve = curve_points([evaluation(10, 1.0, 0.8), evaluation(20, 2.0, 0.9)], 1000)
    assert target_lines(curve, [0.9], over=False) == [("target/0.9", 0, 1000, 0.9)]
    assert target_lines(curve, [0.9], over=True)[1:] == [("target/0.9", 20, 3000, 0.9)]
    assert target_lines([], [0.9], over=True) == []


class Data:
    """What MLflow has of a run."""

    def __init__(self, params, metrics):
        self.tags, self.params, self.metrics = {}, params, metrics


def test_a_page_shows_what_differs_the_targets_and_the_scores_where_they_end():
    same = {"epochs": "5", **{f"model.option{index}": "1" for index in range(30)}}
    runs = [
        Data(same | {"factors.codec": codec, "optimizer.lr": lr, "strategy.codec": codec},
             {"final/top1": top1, "target/0.98": 0.98, "time_to/0.98_s": 4.0})
        for codec, lr, top1 in (("none", "0.1", 0.97), ("T", "0.2", 0.99))
    ]  # fmt: skip
    view = shared_view("top1", runs)
    assert [column for column in view["selectedColumns"] if column.startswith("params")] == [
        "params.`factors.codec`",
        "params.`optimizer.lr`",
    ]
    assert "metrics.`time_to/0.98_s`" in view["selectedColumns"]
    by_time = view["compareRunCharts"][0]
    assert by_time["selectedMetricKeys"] == ["top1", "target/0.98"]
    assert by_time["range"] == {"yMin": pytest.approx(0.95), "yMax": pytest.approx(0.994)}
    assert where_it_matters("perplexity", [Data({}, {"final/perplexity": value}) for value in (100, 120)]) == {
        "yMin": 96, "yMax": 140
    }  # fmt: skip
    assert where_it_matters("top1", [Data({}, {"final/top1": 0.5})]) == where_it_matters("top1", []) == {}
    many = [Data({f"testing.a-long-name-{index}": str(run) for index in range(99)}, {}) for run in range(2)]
    shown = [column for column in shared_view("top1", many)["selectedColumns"] if column.startswith("params")]
    assert len(shown) == MOST_COLUMNS
    assert len(json.dumps(shared_view("top1", many))) < 5000  # MLflow's limit of an experiment's tag
