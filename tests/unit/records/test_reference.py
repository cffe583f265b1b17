"""The tables of the reference: they restore the same runs; altered files are named."""

from __future__ import annotations

import copy
import itertools
import json
import os
import shutil

import pandas as pd
import pytest

from repro.core.errors import InputError
from repro.records import catalogue, reference
from repro.records.tables import TABLES, build_table
from tests.reports.data.probes import probe
from tests.reports.data.summaries import make
from tests.support.records import record_of, write_summary


def published(runs):
    return sorted(map(record_of, runs), key=lambda record: record.name)


@pytest.fixture
def runs():
    trained = [make("D-Sync", seed=seed, run=f"d-sync-{seed}") for seed in (0, 1)]
    trained[0]["trace"].append({"rank": 0, "line": "main", "name": "forward", "start": 1.0, "end": 2.5, "minibatch": 7})
    trained[1] |= {"curve": [], "trace": [], "kind": "simulated"}
    sizes = {"points": [{"bytes": nbytes, "mean_s": 0.1, "runs": 5} for nbytes in (10, 100)]}
    probes = [probe("p2p", name, name, sizes, run="probe") for name in ("configurations", "fig8")]
    return published([*trained, *probes])


def test_the_same_runs_come_back(runs, tmp_path):
    folder = reference.write("pipesgd", runs, tmp_path)
    found = reference.read("pipesgd", tmp_path)
    assert found == runs
    assert [json.dumps(run.plain(), sort_keys=True) for run in found] == [
        json.dumps(run.plain(), sort_keys=True) for run in runs
    ]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert reference.write("pipesgd", copy.deepcopy(runs)[::-1], tmp_path) == folder
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert reference.papers(tmp_path) == ["pipesgd"] and reference.read("gtopk", tmp_path) == []


def test_its_tables_are_tidy(runs, tmp_path):
    folder = reference.write("pipesgd", runs, tmp_path)
    found = {name: pd.read_parquet(folder / f"{name}.parquet") for name in TABLES}
    trained = [run for run in runs if run.trained]
    first = trained[0]
    row = found["runs"].set_index("run").loc[first.name]
    assert row["variant"] == first.identity.variant and row["step_s"] == first.result.step.mean_s
    assert row["final"] == first.result.final["top1"] and row["phases.forward"] == first.result.phases["forward"]
    assert len(found["points"]) == sum(len(run.result.curve) for run in trained)
    assert len(found["intervals"]) == sum(len(run.result.trace) for run in trained)
    assert set(found["rows"]["run"]) == {run.name for run in runs if not run.trained}


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("points.parquet", lambda data: data[:-1] + b"0", "points.parquet: not as it was published"),
        ("runs.parquet", None, "runs.parquet: No such file"),
        ("manifest.json", None, "manifest.json: not a readable manifest"),
        ("manifest.json", lambda data: b"{", "manifest.json: not a readable manifest"),
        ("manifest.json", lambda data: b"[]", "manifest.json: not a readable manifest"),
        ("manifest.json", lambda data: data.replace(b'"schema": 2', b'"schema": 3'), "schema 3, this version reads"),
    ],
)
def test_an_altered_file_is_named(file, damage, words, runs, tmp_path):
    path = reference.write("pipesgd", runs, tmp_path) / file
    if damage:
        path.write_bytes(damage(path.read_bytes()))
    else:
        path.unlink()
    with pytest.raises(InputError, match=words) as caught:
        reference.read("pipesgd", tmp_path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


class Killed(BaseException):
    """As by SIGKILL: nothing that follows runs, nothing is cleaned up."""


def killed_after(monkeypatch, steps, call):
    """Whether a call is killed after so many changes of the folder."""
    left = [steps]
    with monkeypatch.context() as patch:

        def counted(step):
            def or_dies(*arguments, **options):
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
                return step(*arguments, **options)

            return or_dies

        for name in ("mkdir", "replace", "unlink"):
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            call()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("before", [0, 2], ids=["first", "second"])
def test_a_publish_that_is_killed_leaves_the_old_reference_or_the_new(runs, tmp_path, monkeypatch, before):
    monkeypatch.setattr(reference, "reference_root", lambda: tmp_path / "cut")
    old, reached = runs[:before], []
    if old:
        reference.write("pipesgd", old, tmp_path / "old")
    whole = {path.name: path.read_bytes() for path in reference.write("pipesgd", runs, tmp_path / "whole").iterdir()}
    for steps in itertools.count():
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        if old:
            shutil.copytree(tmp_path / "old", tmp_path / "cut")
        if not killed_after(monkeypatch, steps, lambda: reference.write("pipesgd", runs)):
            break
        found = reference.read("pipesgd")
        reached.append(found == runs)
        assert found in (old, runs)
        assert reference.papers() == (["pipesgd"] if found else [])
        again = [*found, runs[-1]] if found == old else found  # what the next publish keeps, and adds
        folder = reference.write("pipesgd", again)
        assert reference.read("pipesgd") == again
        assert {path.name for path in folder.iterdir()} == whole.keys()
    assert len(reached) > 10 and reached == sorted(reached) and {*reached} == {False, True}
    assert {path.name: path.read_bytes() for path in (tmp_path / "cut" / "pipesgd").iterdir()} == whole


def test_a_run_that_is_none_is_named(runs, tmp_path, monkeypatch):
    def spoilt(plain):
        bed = plain["identity"]["testbed"] | {"alpha_s": "four"}
        return plain | {"identity": plain["identity"] | {"testbed": bed}}

    with monkeypatch.context() as written:
        written.setattr(reference, "_without_lists", spoilt)
        reference.write("pipesgd", runs[:1], tmp_path)
    with pytest.raises(InputError, match=r"runs\.parquet: configurations/probe: not a readable run \(.*alpha_s"):
        reference.read("pipesgd", tmp_path)


def test_a_run_of_the_workspace_takes_the_place_of_the_same_in_the_reference(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "results_root", lambda: tmp_path / "workspace")
    monkeypatch.setattr(catalogue, "reference_root", lambda: tmp_path / "reference")
    monkeypatch.setattr(reference, "reference_root", lambda: tmp_path / "reference")
    committed = [make("D-Sync", seed=seed, batch=100, run=name) for seed, name in ((0, "a"), (1, "b"))]
    reference.write("pipesgd", published(committed))
    for seed, name in ((1, "b"), (2, "c")):
        folder = tmp_path / "workspace" / "pipesgd" / "fig4-mnist" / name
        folder.mkdir(parents=True)
        write_summary(folder, make("D-Sync", seed=seed, batch=7, run=name))

    def found(root=None):
        return [(run.identity.seed, run.identity.batch, run.origin) for run in catalogue.runs("pipesgd", root)]

    mine = [(1, 7, "workspace"), (2, 7, "workspace")]
    assert found() == [(0, 100, "reference"), *mine]
    assert found(tmp_path / "workspace") == mine
    assert found(tmp_path / "reference") == [(0, 100, "reference"), (1, 100, "reference")]
    table = build_table("runs", catalogue.runs("pipesgd"))
    assert list(table["origin"]) == ["reference", "workspace", "workspace"] and list(table["batch"]) == [100, 7, 7]
