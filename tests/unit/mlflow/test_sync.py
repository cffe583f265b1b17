"""Mirroring a whole workspace: each missing run once; and a tracking store that does not work."""

import fcntl
import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from repro.answers.mlflow import BestEffort, Store, open_store, send_run, store, sync_all, tracking_uri
from repro.answers.mlflow.format import tags
from repro.answers.mlflow.store import database_file
from repro.answers.mlflow.view import SHARED_VIEW
from repro.core.errors import FaultError, InputError
from repro.records import reference
from tests.support.records import plain_of, record_of
from tests.unit.mlflow.made import evaluation, planned, runs_of, summary_of, write_events, write_finished


def half_made(path, version="451aebb31d03"):
    """As MLflow leaves its file if it is killed after a change of the tables, before it writes their version."""
    open_store(f"sqlite:///{path}", path.parent)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = ?", [version])


INVALID = {
    "text": lambda path: path.write_text("not a database " * 100),
    "folder": lambda path: path.mkdir(),
    "half made": half_made,
    "of a later MLflow": lambda path: half_made(path, "0123456789ab"),
}


@pytest.mark.parametrize("make", INVALID.values(), ids=INVALID)
def test_an_invalid_database_costs_one_warning_or_one_line(tmp_path, folder, monkeypatch, make):
    """MLflow itself would try for 150 s."""
    (tmp_path / "mlflow.db").unlink()
    make(tmp_path / "mlflow.db")
    monkeypatch.setattr("mlflow.MlflowClient", lambda uri: pytest.fail("MLflow was called"))
    warnings = []
    mirrors = BestEffort(Store(f"sqlite:///{tmp_path}/mlflow.db", tmp_path), warnings.append)
    write_events(folder, evaluation(10, 1.0, 0.5))
    for _ in range(2):
        mirrors.begin(folder)
        mirrors.live(folder)
        mirrors.end(folder)
    [warning] = warnings
    assert warning.startswith("warning: MLflow") and "repro track sync" in warning and "\n" not in warning
    assert "move it away" in warning
    with pytest.raises(InputError, match=rf"{tmp_path}/mlflow\.db: .*move it away") as refusal:
        sync_all(tmp_path)
    assert "goes on" not in str(refusal.value)


def test_a_database_damaged_in_its_middle_is_named(root, folder):
    write_events(folder, evaluation(10, 1.0, 0.5))
    content = bytearray((root / "mlflow.db").read_bytes())
    content[8192:-4096] = bytes(len(content) - 12288)
    (root / "mlflow.db").write_bytes(content)
    with pytest.raises(InputError, match=rf"{root}/mlflow\.db: .*move it away"):
        sync_all(root)


def test_a_database_is_whole_or_not_there_when_its_making_is_killed(tmp_path, folder, monkeypatch):
    (tmp_path / "mlflow.db").unlink()
    write_events(folder, evaluation(10, 1.0, 0.5))
    with monkeypatch.context() as killing:
        killing.setattr("alembic.script.ScriptDirectory.run_env", lambda _: exec("raise SystemExit(143)"))
        with pytest.raises(SystemExit):
            sync_all(tmp_path)
    assert sync_all(tmp_path).done == 1


def test_a_results_folder_with_a_question_mark_keeps_its_database(tmp_path, monkeypatch):
    """And nothing is made in the current folder, as MLflow does of the URI's name."""
    root = tmp_path / "quest?x=1" / "50%41 #1"
    monkeypatch.chdir(tmp_path)
    folder = root / "pipesgd" / "fig4-mnist" / "pipe-sgd-t-s3"
    write_events(folder, evaluation(10, 1.0, 0.5))
    assert sync_all(root).done == 1 and len(runs_of(root)[1]) == 1
    assert {path.parent for path in tmp_path.rglob("mlflow.db*")} == {root}
    assert database_file(tracking_uri(None, root)).parent == root
    assert [path.name for path in tmp_path.iterdir()] == ["quest?x=1"]


def test_a_wrong_address_is_refused_in_one_line(tmp_path):
    for uri, what in {
        "htp://user:se/cr@et@host:5000": "unknown scheme 'htp'",
        "localhost:5000": "no scheme",
        "mlruns": "no scheme",
        "http://": "no host",
        "http://host:port": "Port could not be cast",
        "http://[::1": "Invalid IPv6",
        "http://user:secret@my host/": "a space",
    }.items():
        with pytest.raises(InputError) as caught:
            Store(uri, tmp_path)
        line = str(caught.value)
        assert what in line and "http://HOST:5000" in line and "\n" not in line
        assert "secret" not in line and "se/cr" not in line and "et@" not in line
    for uri in ("https://u:p@host/path", "sqlite:////tmp/x.db", "mysql+pymysql://u:p@h/d", "databricks", "/tmp/runs"):
        assert tracking_uri(uri) == uri


def test_sync_all_mirrors_what_is_missing_once(root, folder):
    curve = [evaluation(10, 1.0, 0.8), evaluation(20, 2.0, 0.9)]
    write_finished(folder, curve, {"optimizer": {"lr": 0.1}})  # as in a fresh clone: no events
    ends = [("killed", None), ("failed", {"event": "failed", "reason": "no"})]
    for name, end in ends:
        write_events(folder.with_name(name), curve[0], end=end, key=name, variant=name)
    assert sync_all(root) == (3, 0, 0)
    assert sync_all(root) == (0, 3, 0)
    client, runs = runs_of(root)
    by_variant = {run.data.tags["variant"]: run for run in runs}
    statuses = {"Pipe-SGD + T": "FINISHED", "killed": "KILLED", "failed": "FAILED"}
    assert {key: run.info.status for key, run in by_variant.items()} == statuses
    of_variants = {run.info.run_name: run for run in runs_of(root, variants=True)[1]}
    assert {key: run.info.status for key, run in of_variants.items()} == statuses  # the worst of their seeds
    shared = of_variants["Pipe-SGD + T"].data.params
    assert shared["optimizer.lr"] == "0.1" and "seed" not in shared
    run = by_variant["Pipe-SGD + T"]
    assert run.info.start_time == 1769860800000 and run.info.end_time == run.info.start_time + 9000
    assert [point.step for point in client.get_metric_history(run.info.run_id, "top1")] == [0, 10, 20]
    assert run.data.params["optimizer.lr"] == "0.1"
    write_finished(folder, [evaluation(10, 1.1, 0.8)])
    assert sync_all(root) == (1, 2, 0)
    assert len(runs_of(root)[1]) == 3
    with open(folder / "run.lock", "w") as lock:  # as a command that is at work on the run holds it
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sync_all(root) == (0, 2, 1)


MALFORMED = {
    "no-date": {"provenance": {"finished_at": 5}},
    "no-memory": {"memory": {"peak_bytes": []}},
    "no-step": {"step": {}},
    "no-end": {"curve": [{"train_s": 1e308, "iteration": 1, "top1": 1}]},
    "beyond-a-database": {"curve": [{"train_s": 1.0, "iteration": 10**30, "top1": 1}]},
    "no-text": {"variant": "\ud800"},
    "no-name": {"counters": {"../x": 1, "": 2}},
}


def test_a_run_that_cannot_be_read_or_shown_keeps_no_other_from_being_mirrored(root, folder, capsys):
    for name, more in {**MALFORMED, "whole": {}}.items():
        place = folder.with_name(name)
        place.mkdir(parents=True)
        (place / "summary.json").write_text(json.dumps(plain_of(summary_of([], run=name, key=name) | more)))
    write_finished(folder.with_name("broken"))
    (folder.with_name("broken") / "summary.json").write_text("{")
    # each level holds the one before it ten times: some hundred bytes, and a thousand million values if followed
    write_events(folder.with_name("aliases"))
    levels = [f"l{level}: &l{level} [{', '.join(10 * [f'*l{level - 1}'])}]" for level in range(1, 10)]
    (folder.with_name("aliases") / "config.yaml").write_text("\n".join(["l0: &l0 [lol]", *levels]))
    assert sync_all(root).done == 1
    assert any(run.data.tags["repro.key"] == "whole" for run in runs_of(root)[1])
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    for name in (*MALFORMED, "broken", "aliases"):
        assert any(f"/{name}" in line for line in warnings), name


def test_sync_all_mirrors_published_runs_that_the_workspace_has_not(root, folder):
    """Two of equal configuration, and so of equal key, are two runs."""
    write_finished(folder, [evaluation(20, 2.0, 0.9)])
    names = ("base", "beta-low", folder.name)
    runs = [record_of(summary_of([], run=name, key="published"), {"optimizer": {"lr": 0.5}}) for name in names]
    reference.write("pipesgd", runs, root / "reference")
    assert sync_all(root) == (3, 0, 0)
    assert sync_all(root) == (0, 3, 0)
    client, found = runs_of(root)
    mirrored = {run.data.tags["repro.run"]: run for run in found if run.data.tags["repro.key"] == "published"}
    assert set(mirrored) == {"base", "beta-low"}
    run = mirrored["base"]
    assert run.info.status == "FINISHED" and run.data.params["optimizer.lr"] == "0.5"
    assert {"summary.json", "config.yaml"} <= {file.path for file in client.list_artifacts(run.info.run_id)}


def test_a_lock_that_is_never_free_costs_one_line_and_only_the_mirror(root, folder, monkeypatch):
    monkeypatch.setattr(store, "LOCK_S", 0.1)
    hold = "import fcntl, sys; fcntl.flock(file := open(sys.argv[1], 'w'), 2); print('held', flush=True); input()"
    command = [sys.executable, "-c", hold, str(root / "mlflow.lock")]
    warnings = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        mirrors = BestEffort(Store(root=root), warnings.append)
        write_events(folder, evaluation(10, 1.0, 0.5))
        mirrors.begin(folder)
        mirrors.end(folder)
        (line,) = warnings
        assert f"{root}/mlflow.lock is held by process {holder.pid}, not free within 0.1 s" in line
        assert "results are complete without it" in line
        with pytest.raises(FaultError, match=f"is held by process {holder.pid}"):
            sync_all(root)
        holder.communicate(b"\n")
    assert sync_all(root).done == 1


def test_sync_all_says_when_it_cannot(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    write_events(tmp_path / "pipesgd" / "x" / "y", evaluation(10, 1.0, 0.8))
    with pytest.raises(FaultError, match=r"MLflow \(http://127.0.0.1:9\): connection refused; 0 of 1 runs"):
        sync_all(tmp_path, "http://ann:secret@127.0.0.1:9")


def test_nothing_imports_mlflow_before_a_run_starts():
    code = "import sys; from repro.answers.mlflow import BestEffort, Store; BestEffort(Store());"
    code += "assert 'mlflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_kinds_are_apart(root, folder):
    client = open_store(tracking_uri(None, root), root)
    others = client.create_experiment("pipesgd/fig4-mnist-other")
    client.create_run(others, tags=tags(planned()))
    send_run(Store(root=root), planned("k2", testbed={"name": "a", "kind": "simulated", "launcher": "virtual"}))
    write_finished(folder, [evaluation(10, 1.0, 0.8), evaluation(20, 2.0, 0.9)])
    assert sync_all(root).done == 1
    assert len(client.search_runs([others])) == 1
    assert len(runs_of(root, "pipesgd/fig4-mnist (simulated)")[1]) == 1
    assert len(runs_of(root)[1]) == 1
    experiment = client.get_experiment_by_name("pipesgd/fig4-mnist (measured)")
    view = json.loads(experiment.tags[f"mlflow.sharedViewState.{SHARED_VIEW}"])
    assert view["compareRunCharts"][0]["selectedMetricKeys"] == ["top1"]
    assert sync_all(root) == (0, 1, 0)
