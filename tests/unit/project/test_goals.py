"""The benchmarks' goals: numbers of runs, or ratios of them, against bounds."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

from repro.core import config_folders
from repro.core.errors import InputError
from repro.core.fields import check_fields
from repro.experiment import files
from repro.experiment.config import experiment_names
from repro.fabric.sparse.selection import select_topk
from tests.bench import goals, selection
from tests.bench.__main__ import FOLDER, FUNCTIONS
from tests.reports.data.probes import probe
from tests.reports.data.summaries import make
from tests.support.records import record_of


def row(name: str, nbytes: int, seconds: float, seed: int = 0, **more) -> dict:
    return {"name": name, "bytes": nbytes, "seconds.median": seconds, "seed": seed, "cores": 2, **more}


AUTO = {"what": "auto over the better of two", "where": {"name": "auto"}, "over": {"name": ["native", "ring"]},
        "number": "seconds.median", "by": ["bytes"], "at_most": 1.1}  # fmt: skip


def judge(rows: list[dict], **given) -> list[dict]:
    return goals.judge(goals.Goal(**given), pd.DataFrame(rows))


def test_a_ratio_is_over_the_least_of_several_and_the_median_of_the_seeds():
    rows = [
        row(name, nbytes, seconds, seed)
        for seed, auto in enumerate((1.0, 1.05, 4.0))
        for name, nbytes, seconds in (("auto", 4, auto), ("native", 4, 2.0), ("ring", 4, 1.0), ("auto", 8, 3.0))
    ]
    short, long = judge(rows, **AUTO)
    assert short["what"] == "auto over the better of two, 4 bytes" and short["met"]
    assert (short["value"], short["spread"]) == (1.05, [1.0, 4.0])
    assert long["value"] is None and not long["met"]  # nothing of that size to compare with
    text = goals.text([short, long])
    assert "1.05 (1 to 4), goal at most 1.1" in text and "NOT MET" in text and "not measured" in text


def test_the_two_sides_may_be_runs_of_their_own():
    goal = goals.Goal(what="throughput", rows=None, where={"factors.method": "theirs"}, over={"factors.method": "ours"},
                      number="step.median_s / batch", at_least=1.0)  # fmt: skip
    runs = [
        record_of(make(factors={"method": name}, batch=batch, step={"mean_s": 2.0, "median_s": 2.0}))
        for name, batch in (("ours", 64), ("theirs", 32))
    ]
    [judged] = goals.judge(goal, goals.goal_rows(goal, runs))
    assert judged["value"] == 2.0 and judged["met"]


def test_an_entry_of_a_probe_stands_beside_the_columns_of_its_run():
    goal = goals.Goal(what="w", rows="points", number="mean_s / workers", only="bytes == 10", at_most=1.0)
    entries = {"points": [{"bytes": nbytes, "mean_s": 2.0, "runs": 5} for nbytes in (10, 100)]}
    rows = goals.goal_rows(goal, [record_of(probe("p2p", "fig8", "fig8", entries) | {"workers": 4})])
    [judged] = goals.judge(goal, rows)
    assert len(rows) == 2 and judged["value"] == 0.5


def test_a_goal_for_other_machines_is_not_judged():
    given = {"what": "w", "number": "seconds.median", "at_most": 1.0}
    rows = [row("auto", 4, 0.5)]
    assert judge(rows, **given, only="cores >= 16") == []
    assert judge(rows, **given, only="cores >= 2")[0]["met"]
    assert not judge([], **given)[0]["met"]


def test_a_goal_for_other_machines_says_what_it_requires():
    given = {"what": "w", "number": "seconds.median", "at_most": 1.0, "machine": "cores >= 16"}
    [elsewhere] = judge([row("auto", 4, 0.5)], **given)
    assert elsewhere["value"] is None and not elsewhere["met"] and "cores >= 16" in goals.text([elsewhere])
    [here] = judge([row("auto", 4, 0.5) | {"cores": 16}], **given)
    assert here["met"] and here["not_here"] is None


def test_a_bare_programs_number_stands_beside_the_goal():
    rows = [row(name, nbytes, seconds) for nbytes in (4, 8) for name, seconds in (("ours", 3.0), ("bare", nbytes))]
    given = {"what": "w", "number": "seconds.median", "by": ["bytes"], "at_most": 2.0}
    short, long = judge(rows, **given, where={"name": "ours"}, floor={"name": "bare"})
    assert (short["floor"], long["floor"]) == (4, 8) and short["value"] == long["value"] == 3.0
    assert "a bare program 4" in goals.text([short])


def test_what_only_some_rows_have_can_be_divided_by():
    rows = [row("ours", 4, 3.0, network="memory", bound_s=None), row("ours", 4, 3.0, network="links", bound_s=2.0)]
    given = {"what": "w", "number": "seconds.median / bound_s", "at_most": 2.0}
    [goal] = judge(rows, **given, only="network == 'links'")
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


def test_a_bare_selection_selects_the_same():
    vector = torch.randn(5000, generator=torch.Generator().manual_seed(1))
    values, indices = selection.bare(vector, 5)()
    exact = select_topk(vector, 5)
    assert indices.tolist() == exact.indices.tolist() and values.tolist() == exact.values.tolist()
