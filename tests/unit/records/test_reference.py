"""The reference's tables: the same runs come back, whatever was altered is named, rows are chosen by their columns."""

from __future__ import annotations

import copy
import json

import pandas as pd
import pytest

from repro.common.errors import InputError
from repro.records import catalogue, reference, tidy
from repro.records.reference import Published
from repro.records.selection import chosen
from repro.records.store import write_summary
from tests.reports.data.pipedream import configurations, layer_sizes
from tests.reports.data.summaries import make


def published(runs):
    return [Published(run, {"workers": run["workers"]}) for run in sorted(runs, key=tidy.name)]


@pytest.fixture
def runs():
    trained = [make("D-Sync", seed=seed, cell=f"d-sync-{seed}") for seed in (0, 1)]
    trained[0]["trace"].append({"rank": 0, "line": "main", "name": "forward", "start": 1.0, "end": 2.5, "minibatch": 7})
    trained[1] |= {"curve": [], "trace": [], "kind": "simulated"}
    probes = [run | {"cell": f"probe-{number}"} for number, run in enumerate((configurations(), layer_sizes()))]
    return published([*trained, *probes])


def test_the_same_runs_come_back(runs, tmp_path):
    folder = reference.write("pipesgd", runs, tmp_path)
    found = reference.read("pipesgd", tmp_path)
    assert found == runs
    assert [json.dumps(run, sort_keys=True) for run in found] == [json.dumps(run, sort_keys=True) for run in runs]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert reference.write("pipesgd", copy.deepcopy(runs)[::-1], tmp_path) == folder
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert reference.papers(tmp_path) == ["pipesgd"] and reference.read("gtopk", tmp_path) == []


def test_its_tables_are_tidy(runs, tmp_path):
    folder = reference.write("pipesgd", runs, tmp_path)
    found = {name: pd.read_parquet(folder / f"{name}.parquet") for name in tidy.TABLES}
    first = next(run.summary for run in runs if run.summary["setting"] == "D-Sync")
    row = found["runs"].set_index("run").loc[tidy.name(first)]
    assert row["variant"] == first["setting"] and row["step_s"] == first["step"]["mean_s"]
    assert row["final"] == first["final"]["top1"] and row["phases.forward"] == first["phases"]["forward"]
    assert len(found["points"]) == sum(len(run.summary.get("curve", ())) for run in runs)
    assert len(found["intervals"]) == sum(len(run.summary.get("trace", ())) for run in runs)
    assert set(found["rows"]["run"]) == {tidy.name(run.summary) for run in runs if "result" in run.summary}


@pytest.mark.parametrize(
    ("file", "harm", "says"),
    [
        ("points.parquet", lambda data: data[:-1] + b"0", "points.parquet: not as it was published"),
        ("runs.parquet", None, "runs.parquet: No such file"),
        ("manifest.json", None, "manifest.json: not a readable manifest"),
        ("manifest.json", lambda data: b"{", "manifest.json: not a readable manifest"),
        ("manifest.json", lambda data: b"[]", "manifest.json: not a readable manifest"),
        ("manifest.json", lambda data: data.replace(b'"schema": 1', b'"schema": 2'), "schema 2, this version reads 1"),
    ],
)
def test_what_was_altered_is_named(file, harm, says, runs, tmp_path):
    path = reference.write("pipesgd", runs, tmp_path) / file
    if harm:
        path.write_bytes(harm(path.read_bytes()))
    else:
        path.unlink()
    with pytest.raises(InputError, match=says) as caught:
        reference.read("pipesgd", tmp_path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_run_that_is_none_is_named(runs, tmp_path):
    runs[0].summary["workers"] = "four"
    reference.write("pipesgd", runs, tmp_path)
    with pytest.raises(InputError, match=r"runs\.parquet: configurations/probe-0: not a readable run \(workers"):
        reference.read("pipesgd", tmp_path)


def test_a_run_of_the_workspace_takes_the_place_of_the_same_in_the_reference(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "results_root", lambda: tmp_path / "workspace")
    monkeypatch.setattr(catalogue, "reference_root", lambda: tmp_path / "reference")
    monkeypatch.setattr(reference, "reference_root", lambda: tmp_path / "reference")
    committed = [make("D-Sync", seed=seed, batch=100, cell=cell) for seed, cell in ((0, "a"), (1, "b"))]
    reference.write("pipesgd", published(committed))
    for seed, cell in ((1, "b"), (2, "c")):
        folder = tmp_path / "workspace" / "pipesgd" / "fig4-mnist" / cell
        folder.mkdir(parents=True)
        write_summary(folder, make("D-Sync", seed=seed, batch=7, cell=cell))

    def found(root=None):
        return [(run.summary["seed"], run.summary["batch"], run.origin) for run in catalogue.runs("pipesgd", root)]

    mine = [(1, 7, "workspace"), (2, 7, "workspace")]
    assert found() == [(0, 100, "reference"), *mine]
    assert found(tmp_path / "workspace") == mine
    assert found(tmp_path / "reference") == [(0, 100, "reference"), (1, 100, "reference")]
    table = catalogue.table("runs", catalogue.runs("pipesgd"))
    assert list(table["origin"]) == ["reference", "workspace", "workspace"] and list(table["batch"]) == [100, 7, 7]


TABLE = tidy.frame(
    [
        {"strategy": "dsync", "workers": 4, "step_s": 0.5, "standin": True, "mixed": 1},
        {"strategy": "pipe_sgd", "workers": 8, "step_s": None, "standin": False, "mixed": "T"},
        {"strategy": "ps_sync", "workers": None, "step_s": 2, "standin": None},
    ]
)


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        ([], ["dsync", "pipe_sgd", "ps_sync"]),
        (["workers=4"], ["dsync"]),
        (["workers!=4"], ["pipe_sgd"]),
        ([" step_s >= 0.5 "], ["dsync", "ps_sync"]),
        (["step_s>=0.5", "step_s<2"], ["dsync"]),
        (["strategy!=dsync"], ["pipe_sgd", "ps_sync"]),
        (["standin=false"], ["pipe_sgd"]),
        (["mixed=1"], ["dsync"]),
        (["strategy=a=b"], []),
    ],
)
def test_rows_are_chosen_by_their_columns(conditions, names):
    assert list(chosen(TABLE, conditions)["strategy"]) == names


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("workers", "--where workers: must be COLUMN, one of = != < <= > >=, and a value"),
        ("worker=4", "unknown column 'worker'; nearest: workers"),
        ("workers=four", "'four' is no number"),
        ("standin>true", "must be =true or =false"),
        ("strategy<dsync", "strategy holds text"),
    ],
)
def test_conditions_that_are_none(condition, says):
    with pytest.raises(InputError) as caught:
        chosen(TABLE, [condition])
    assert says in str(caught.value)


def test_columns_have_one_type():
    assert dict(TABLE.dtypes.astype(str)) == {
        "strategy": "object", "workers": "Int64", "step_s": "float64", "standin": "boolean", "mixed": "object",
    }  # fmt: skip
