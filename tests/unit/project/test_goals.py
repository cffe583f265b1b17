"""The benchmarks' goals: numbers of records, or ratios of them, against bounds."""

from __future__ import annotations

import pytest

from repro.core import config_folders
from repro.core.errors import InputError
from repro.core.fields import check_fields
from repro.experiment import files
from repro.experiment.config import experiment_names
from tests.bench import goals
from tests.bench.__main__ import FOLDER, FUNCTIONS


def record(seed: int, rows: list[dict], **factors) -> dict:
    return {"seed": seed, "testbed": "here", "factors": factors, "result": {"cores": 2, "rows": rows}}


def row(name: str, nbytes: int, seconds: float) -> dict:
    return {"name": name, "bytes": nbytes, "seconds": {"median": seconds}}


AUTO = {"what": "auto over the better of two", "where": {"name": "auto"}, "over": {"name": ["native", "ring"]},
        "number": "seconds_median", "by": ["bytes"], "at_most": 1.1}  # fmt: skip


def judge(summaries: list[dict], **given) -> list[dict]:
    return goals.judge(goals.Goal(**given), summaries)


def test_a_ratio_is_over_the_least_of_several_and_the_median_of_the_seeds():
    runs = [
        record(seed, [row("auto", 4, auto), row("native", 4, 2.0), row("ring", 4, 1.0), row("auto", 8, 3.0)])
        for seed, auto in enumerate((1.0, 1.05, 4.0))
    ]
    short, long = judge(runs, **AUTO)
    assert short["what"] == "auto over the better of two, 4 bytes" and short["met"]
    assert (short["value"], short["spread"]) == (1.05, [1.0, 4.0])
    assert long["value"] is None and not long["met"]  # nothing of that size to compare with
    text = goals.text([short, long])
    assert "1.05 (1 to 4), goal at most 1.1" in text and "NOT MET" in text and "not measured" in text


def test_the_two_sides_may_be_runs_of_their_own():
    runs = [
        {"seed": 0, "factors": {"method": name}, "batch": batch, "step": {"median_s": 2.0}}
        for name, batch in (("ours", 64), ("theirs", 32))
    ]
    sides = {"where": {"method": "theirs"}, "over": {"method": "ours"}}
    [goal] = judge(runs, what="throughput", rows=None, number="step_median_s / batch", at_least=1.0, **sides)
    assert goal["value"] == 2.0 and goal["met"]


def test_a_goal_for_other_machines_is_not_judged():
    given = {"what": "w", "number": "seconds_median", "at_most": 1.0}
    runs = [record(0, [row("auto", 4, 0.5)])]
    assert judge(runs, **given, only="cores >= 16") == []
    assert judge(runs, **given, only="cores >= 2")[0]["met"]
    assert not judge([], **given)[0]["met"]


def test_what_only_some_rows_have_can_be_divided_by():
    with_bound = record(0, [row("ours", 4, 3.0) | {"bound_s": 2.0}], network="links")
    without = record(0, [row("ours", 4, 3.0) | {"bound_s": None}], network="memory")
    given = {"what": "w", "number": "seconds_median / bound_s", "at_most": 2.0}
    [goal] = judge([without, with_bound], **given, only="network == 'links'")
    assert goal["value"] == 1.5


def test_a_goal_has_one_bound():
    for bounds in ({}, {"at_most": 1, "at_least": 2}):
        with pytest.raises(InputError, match="at_most"):
            goals.Goal(what="w", number="n", **bounds)


def test_the_benchmarks_goals_are_goals():
    with config_folders.using_folders([FOLDER]):
        for experiment in set(experiment_names("bench")) - {"bench/collective"}:
            assert all(check_fields(goals.Goal, goal, "goals").what for goal in files.own_file(experiment)["goals"])
            assert all(judged["value"] is None for judged in goals.judge_experiment(experiment, []))
    for module in FUNCTIONS.values():
        assert all(check_fields(goals.Goal, goal, "goals").what for goal in module.GOALS)
