"""`repro results`, `repro publish`, `repro verify`: what they print, refuse and leave."""

from __future__ import annotations

import json
import shutil

import pandas as pd
import pytest

from repro.cli import main
from repro.commands import results
from repro.common import paths
from repro.experiment.files import write_yaml
from repro.records import catalogue, reference
from repro.records.store import write_summary
from repro.reports import built, published_verdicts
from tests.reports.data.summaries import make

rendered = results.render  # as it is, where the fixture replaces it


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A workspace and a reference of the test's own; no page is built."""
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "workspace"))
    for module in (paths, catalogue, reference, published_verdicts):
        monkeypatch.setattr(module, "reference_root", lambda: tmp_path / "reference")
    monkeypatch.setattr(results, "render", lambda paper: None)
    return tmp_path


def put(places, cell, variant="D-Sync", **changes):
    folder = places / "workspace" / "pipesgd" / "fig4-mnist" / cell
    folder.mkdir(parents=True, exist_ok=True)
    write_summary(folder, make(variant, cell=cell, **changes))
    write_yaml(folder / "config.yaml", {"workers": 4})


def said(capsys, *arguments):
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_clean_run_is_published_in_the_place_of_an_older_one(places, capsys):
    put(places, "a-1", step={"mean_s": 1.0}, provenance={"dirty": False})
    put(places, "b-1", "Pipe-SGD", provenance={"dirty": False})
    status, out, _ = said(capsys, "publish", "pipesgd")
    assert status == 0 and out.startswith("2 runs of pipesgd are in ") and out.endswith(", 0 as they were\n")
    put(places, "a-2", step={"mean_s": 2.0}, provenance={"dirty": False})
    status, out, _ = said(capsys, "publish", "pipesgd", "--where", "run=fig4-mnist/a-2")
    assert status == 0 and out.startswith("1 runs") and out.endswith(", 1 as they were\n")
    found = reference.read("pipesgd")
    assert [run.summary["cell"] for run in found] == ["a-2", "b-1"]
    assert found[0].summary["step"]["mean_s"] == 2.0 and found[0].config == {"workers": 4}


def test_what_is_not_published(places, capsys):
    put(places, "a-1", provenance={"dirty": True})
    put(places, "b-1", "Pipe-SGD", provenance={"dirty": False})
    for arguments, words in (
        (("pipesgd",), "fig4-mnist/a-1 was made by code that was not committed (1 such runs)"),
        (("gtopk",), "unknown paper with results of yours 'gtopk'"),
        (("pipesgd", "--where", "seed=9"), "no run of pipesgd is one of --where seed=9"),
        (("pipesgd", "--where", "sead=9"), "unknown column 'sead'"),
    ):
        status, _, err = said(capsys, "publish", *arguments)
        assert status == 2 and words in err and err.count("\n") == 1
    assert not (places / "reference").exists()


def test_results_of_both_are_one_table(places, capsys, tmp_path):
    put(places, "a-1", provenance={"dirty": False})
    assert said(capsys, "publish", "pipesgd")[0] == 0
    put(places, "b-1", "Pipe-SGD", step={"mean_s": 0.25})
    _, out, _ = said(capsys, "results", "pipesgd", "--json")
    rows = json.loads(out)
    assert [(row["run"], row["origin"], row["strategy"]) for row in rows] == [
        ("fig4-mnist/a-1", "workspace", "dsync"), ("fig4-mnist/b-1", "workspace", "pipe_sgd")]  # fmt: skip
    assert rows[1]["step_s"] == 0.25 and isinstance(rows[1]["workers"], int)
    (places / "workspace" / "pipesgd" / "fig4-mnist" / "a-1" / "summary.json").unlink()
    _, out, _ = said(capsys, "results")
    assert "pipesgd/fig4-mnist" in out and "Pipe-SGD" in out and "reference" in out and "workspace" in out
    _, out, _ = said(capsys, "results", "--csv", "--where", "origin=reference")
    assert out.splitlines()[0].startswith("origin,paper,run,variant,") and len(out.splitlines()) == 2
    said(capsys, "results", "--table", "points", "--parquet", str(tmp_path / "points.parquet"))
    points = pd.read_parquet(tmp_path / "points.parquet")
    assert set(points["run"]) == {"fig4-mnist/a-1", "fig4-mnist/b-1"} and points["top1"].notna().all()


def test_tables_that_there_are_not(places, capsys):
    put(places, "a-1")
    status, _, err = said(capsys, "results", "--table", "run")
    assert status == 2 and "unknown --table 'run'; valid: runs" in err
    status, _, err = said(capsys, "results", "--parquet", str(places / "none" / "runs.parquet"))
    assert status == 2 and "cannot write" in err and err.count("\n") == 1
    status, _, err = said(capsys, "results", "pipedream")
    assert status == 2 and "unknown paper with results 'pipedream'; valid: pipesgd" in err


def test_verify_finds_an_altered_table_and_another_verdict(places, capsys):
    put(places, "a-1", provenance={"dirty": False})
    put(places, "b-1", "Pipe-SGD", provenance={"dirty": False})
    assert said(capsys, "publish", "pipesgd")[0] == 0
    path = published_verdicts.write("pipesgd")
    status, out, _ = said(capsys, "verify")
    verdicts = json.loads(path.read_text())
    assert status == 0
    assert f"pipesgd: 2 runs, tables as published; {len(verdicts)} verdicts, none of them different" in out
    (changed,) = [
        entry for entry in verdicts if entry["claim"] == "dsync-faster-than-ps" and entry["kind"] == "measured"
    ]
    changed["verdict"] = "guessed"
    path.write_text(json.dumps(verdicts))
    status, out, err = said(capsys, "verify")
    assert status == 1 and "1 verdicts are not as published" in err
    assert "dsync-faster-than-ps (measured): " in out and ", published: guessed" in out
    path.write_text("{}")
    assert said(capsys, "verify")[0] == 2
    (places / "reference" / "pipesgd" / "points.parquet").write_bytes(b"")
    status, _, err = said(capsys, "verify")
    assert status == 2 and "points.parquet: not as it was published" in err


def test_verify_writes_pages_and_verdicts_without_runs_of_ones_own(places, capsys, monkeypatch):
    def build(paper, root, out, say):
        assert paper is None and root == places / "reference"
        (out / "figures").mkdir()
        (out / "figures" / "a.png").write_bytes(b"")
        (out / "figures" / "a.pdf").write_bytes(b"")
        (out / built.FOLDER).mkdir()
        (out / "index.md").write_text("*Seen.* [PDF](figures/a.pdf) [CSV](figures/a.csv) [Every](b.md)")

    monkeypatch.setattr("repro.reports.build.build", build)
    monkeypatch.setattr(paths, "PROJECT", places)
    put(places, "a-1", provenance={"dirty": False})
    assert said(capsys, "publish", "pipesgd")[0] == 0
    shutil.rmtree(places / "workspace")
    monkeypatch.setattr(results, "render", rendered)
    assert said(capsys, "verify")[0] == 2  # no verdicts yet
    assert said(capsys, "verify", "--write")[0] == 0 and said(capsys, "verify")[0] == 0
    out = places / "reports" / "out"
    assert {path.name for path in out.rglob("*")} == {"index.md", "figures", "a.png"}
    assert (out / "index.md").read_text() == "*Seen.* [Every](b.md)"


def test_the_committed_reference_is_as_published(capsys):
    """Every table has its digest, and today's code judges every claim as when it was published."""
    status, out, _ = said(capsys, "verify")
    assert status == 0, out
