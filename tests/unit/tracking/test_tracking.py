"""The MLflow mirror: what it logs, that it can be repeated, and that it never stops a run."""

import fcntl
import json
import math
import shutil
import subprocess
import sys

import pytest

from repro.common.errors import FaultError, InputError
from repro.records import reference
from repro.records.events import EventLog
from repro.records.reference import Published
from repro.records.store import write_summary
from repro.tracking import Background, Mirror, Store, open_store, store, sync_all, tracking_uri
from repro.tracking.format import tags
from repro.tracking.machine import sampled, sampled_points
from repro.tracking.view import SHARED_VIEW
from tests.support.waiting import wait_until

RECORD = {
    "key": "k1",
    "paper": "pipesgd",
    "experiment": "fig4-mnist",
    "cell": "pipe-sgd-t-s3",
    "setting": "Pipe-SGD + T",
    "strategy": "pipe_sgd",
    "kind": "measured",
    "testbed": "here",
    "seed": 3,
    "dataset": {"name": "mnist-standin-digits", "standin": True},
    "hardware": {"class": "cpu-2core-x"},
    "config": {"optimizer": {"lr": 0.1}, "strategy": {"K": 2}, "settings": {"D-Sync + T": []}, "data": {"root": None}},
}


def evaluation(iteration, train_s, top1):
    return {"iteration": iteration, "epoch": iteration / 10, "train_s": train_s, "loss": 1.0, "top1": top1}


def summary_of(curve, **more):
    return {
        **{key: value for key, value in RECORD.items() if key != "config"},
        "batch": 100,
        "iterations": 20,
        "curve": curve,
        "final": {"top1": 0.9, "train_s": 2.0, "test_loss": None},
        "targets": {"0.8": {"train_s": 1.5}, "0.99": None},
        "step": {"mean_s": 0.1, "median_s": 0.1, "min_s": 0.1, "max_s": 0.2},
        "phases": {"forward": 0.04, "communicate": 0.06},
        "server_phases": None,
        "communication": {"total_s": 0.05, "exposed_s": 0.01, "overlapped_s": 0.04},
        "bytes_sent": 4000,
        "provenance": {"started_at": "2026-01-31T12:00:00+00:00", "finished_at": "2026-01-31T12:00:09+00:00"},
        "wall": {"total_s": 9.0},
        **more,
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """One migrated database; copying it is ten times as fast as making another."""
    root = tmp_path_factory.mktemp("template")
    open_store(tracking_uri(None, root), root)
    return root / "mlflow.db"


@pytest.fixture
def root(tmp_path, template, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(template, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture
def folder(root):
    return root / "pipesgd" / "fig4-mnist" / "pipe-sgd-t-s3"


def runs_of(root, name="pipesgd/fig4-mnist (measured)"):
    client = open_store(tracking_uri(None, root), root)
    experiment = client.get_experiment_by_name(name)
    return client, client.search_runs([experiment.experiment_id]) if experiment else []


def write_events(folder, *evaluations, end=None):
    with EventLog(folder / "events.jsonl") as log:
        log.append("run_start", **RECORD)
        for each in evaluations:
            log.append("evaluation", **each)
        if end:
            log.append(**end)


def test_a_finished_run_has_curve_numbers_tags_parameters_and_files(root, folder, capfd):
    write_events(folder, evaluation(0, 0.0, 0.1), evaluation(10, 1.0, 0.8), evaluation(20, 2.0, 0.9))
    mirror = Mirror(Store(root=root))
    mirror.start(RECORD)
    mirror.sync(folder)
    write_summary(folder, summary_of([]))
    mirror.finish(folder, summary_of([]))
    client, [run] = runs_of(root)
    assert run.info.status == "FINISHED" and run.info.run_name == "Pipe-SGD + T, measured, seed 3"
    history = client.get_metric_history(run.info.run_id, "top1")
    assert [(point.step, point.value) for point in history] == [(0, 0.1), (10, 0.8), (20, 0.9)]
    # Relative time in the UI is the time since the first point: the training clock.
    assert [point.timestamp - run.info.start_time for point in history] == [0, 1000, 2000]
    assert run.data.metrics["final/top1"] == 0.9 and run.data.metrics["time_to/0.8_s"] == 1.5
    assert "time_to/0.99_s" not in run.data.metrics
    assert run.data.metrics["phases/forward_ms"] == pytest.approx(40)
    assert run.data.metrics["communication/overlapped_ms"] == pytest.approx(40)
    assert run.data.metrics["speed/samples_per_s"] == pytest.approx(1000)
    assert run.data.params == {"optimizer.lr": "0.1", "strategy.K": "2", "data.root": "None"}
    assert run.data.tags["group"] == "Pipe-SGD + T / here" and run.data.tags["stand_in"] == "True"
    assert run.data.tags["kind"] == "measured" and run.data.tags["hardware"] == "cpu-2core-x"
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"summary.json", "events.jsonl"}
    assert (root / "mlflow-artifacts" / "pipesgd" / "fig4-mnist (measured)").is_dir()
    assert capfd.readouterr().out == ""


def test_going_on_in_another_process_repeats_no_point(root, folder):
    write_events(folder, evaluation(10, 1.0, 0.8))
    first = Mirror(Store(root=root))
    first.start(RECORD)
    first.sync(folder)
    first.kill(folder)
    assert runs_of(root)[1][0].info.status == "KILLED"
    with EventLog(folder / "events.jsonl") as log:
        log.append("resume", iteration=10)
        log.append("evaluation", **evaluation(20, 2.0, 0.9))
    second = Mirror(Store(root=root))
    second.start(RECORD)
    assert runs_of(root)[1][0].info.status == "RUNNING"
    second.sync(folder)
    second.sync(folder)
    client, [run] = runs_of(root)
    history = client.get_metric_history(run.info.run_id, "top1")
    assert [point.step for point in history] == [0, 10, 20]
    assert math.isnan(history[0].value) and history[0].timestamp == run.info.start_time  # holds the axis' beginning


def test_iterations_done_again_replace_the_run(root, folder):
    write_events(folder, evaluation(10, 1.0, 0.8), evaluation(20, 2.0, 0.9))
    mirror = Mirror(Store(root=root))
    mirror.start(RECORD)
    mirror.sync(folder)
    with EventLog(folder / "events.jsonl") as log:
        log.append("resume", iteration=10)
        log.append("evaluation", **evaluation(20, 2.5, 0.9))
    mirror.sync(folder)
    client, [run] = runs_of(root)
    history = client.get_metric_history(run.info.run_id, "top1")
    assert [point.timestamp - run.info.start_time for point in history] == [0, 1000, 2500]


def test_a_failed_run_says_why(root, folder):
    mirror = Mirror(Store(root=root))
    mirror.start(RECORD)
    mirror.fail(folder, "rank 2 was lost")
    [run] = runs_of(root)[1]
    assert run.info.status == "FAILED" and run.data.tags["failed"] == "rank 2 was lost"


def test_a_database_that_is_none_costs_one_warning(tmp_path, folder):
    (tmp_path / "mlflow.db").write_text("not a database " * 100)
    warnings = []
    mirrors = Background(Store(f"sqlite:///{tmp_path}/mlflow.db", tmp_path), warnings.append)
    for _ in range(2):
        mirror = mirrors.add()
        mirror.start(RECORD)
        mirror.sync(folder)
        assert not mirror.on
    mirrors.close()
    [warning] = warnings
    assert warning.startswith("warning: MLflow") and "repro track sync" in warning and "\n" not in warning


def test_a_run_that_stopped_half_way_is_completed_and_made_once(root, folder):
    """Whatever request was the last: no run twice, no point twice, nothing missing."""
    write_events(folder, evaluation(0, 0.0, 0.1), evaluation(10, 1.0, 0.8))
    write_summary(folder, summary_of([]))
    (folder / "config.yaml").write_text("optimizer: {lr: 0.1}\n")
    client = open_store(tracking_uri(None, root), root)
    writes = ("create_experiment", "set_experiment_tag", "create_run", "log_batch", "log_artifacts", "set_tag")
    writes += ("set_terminated", "delete_tag", "update_run", "delete_run")
    again_after = 5  # writes
    record, count, complete = RECORD | {"config": {"optimizer": {"lr": 0.1}}}, 0, False

    def attempt(key, most):
        store = Store(root=root)
        store._client = Dying(client, writes, iter(range(most)))
        mirror = Mirror(store)
        mirror.start(record | {"key": key})
        mirror.finish(folder, summary_of([], key=key))

    while not complete:
        key = f"after {count} writes"
        try:
            attempt(key, count)
            complete = True
        except ConnectionError:
            if count == again_after:  # a request whose answer came too late for its sender was made again
                experiment = client.get_experiment_by_name("pipesgd/fig4-mnist (measured)")
                client.create_run(experiment.experiment_id, tags=tags(RECORD | {"key": key}))
            attempt(key, 100)
        count += 1
    client, runs = runs_of(root)
    assert len(runs) == len({run.data.tags["repro.key"] for run in runs}) == count
    assert count > again_after
    for run in runs:
        assert run.info.status == "FINISHED" and run.data.params == {"optimizer.lr": "0.1"}
        assert run.data.tags["repro.mirrored"]
        history = client.get_metric_history(run.info.run_id, "top1")
        assert [(point.step, point.value) for point in history] == [(0, 0.1), (10, 0.8)]
        assert len(client.get_metric_history(run.info.run_id, "final/top1")) == 1
        assert len(client.list_artifacts(run.info.run_id)) == 3


class Dying:
    """A client whose connection is lost at the first write after so many."""

    def __init__(self, client, writes, calls):
        self.client, self.writes, self.calls = client, writes, calls

    def __getattr__(self, name):
        if name in self.writes and next(self.calls, None) is None:
            raise ConnectionError("lost")
        return getattr(self.client, name)


def test_a_run_made_again_with_other_numbers_shows_those(root, folder):
    write_events(folder)
    for top1 in (0.9, 0.7):
        mirror = Mirror(Store(root=root))
        mirror.start(RECORD)
        mirror.finish(folder, summary_of([], final={"top1": top1, "train_s": 2.0}))
    [run] = runs_of(root)[1]
    assert run.data.metrics["final/top1"] == 0.7


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
    folder.mkdir(parents=True)
    write_summary(folder, summary_of(curve))  # as in a fresh clone: no events
    (folder / "config.yaml").write_text("optimizer: {lr: 0.1}\n")
    ends = [("killed", None), ("failed", {"event": "failed", "reason": "no"})]
    for name, end in ends:
        other = folder.with_name(name)
        with EventLog(other / "events.jsonl") as log:
            log.append("run_start", **(RECORD | {"key": name, "setting": name}))
            log.append("evaluation", **curve[0])
            if end:
                log.append(**end)
    assert sync_all(root) == (3, 0, 0)
    assert sync_all(root) == (0, 3, 0)
    client, runs = runs_of(root)
    by_variant = {run.data.tags["setting"]: run for run in runs}
    assert {key: run.info.status for key, run in by_variant.items()} == {
        "Pipe-SGD + T": "FINISHED",
        "killed": "KILLED",
        "failed": "FAILED",
    }
    run = by_variant["Pipe-SGD + T"]
    assert run.info.start_time == 1769860800000 and run.info.end_time == run.info.start_time + 9000
    assert [point.step for point in client.get_metric_history(run.info.run_id, "top1")] == [0, 10, 20]
    assert run.data.params == {"optimizer.lr": "0.1"}
    write_summary(folder, summary_of([evaluation(10, 1.1, 0.8)]))
    assert sync_all(root) == (1, 2, 0)
    assert len(runs_of(root)[1]) == 3
    with open(folder / "cell.lock", "w") as lock:  # as a command that is at work on the run holds it
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sync_all(root) == (0, 2, 1)


def test_sync_all_mirrors_published_runs_that_the_workspace_has_not(root, folder):
    folder.mkdir(parents=True)
    write_summary(folder, summary_of([evaluation(20, 2.0, 0.9)], cell=folder.name))
    elsewhere = summary_of([evaluation(20, 2.0, 0.8)], cell="published", key="published")
    same = summary_of([], cell=folder.name)
    places = {"setting": "D-Sync"}
    runs = [Published(each | places, {"optimizer": {"lr": 0.5}}) for each in (elsewhere, same)]
    reference.write("pipesgd", runs, root / "reference")
    assert sync_all(root) == (2, 0, 0)
    assert sync_all(root) == (0, 2, 0)
    client, found = runs_of(root)
    (mirrored,) = [run for run in found if run.data.tags["repro.key"] == "published"]
    assert mirrored.info.status == "FINISHED" and mirrored.data.params["optimizer.lr"] == "0.5"
    files = {file.path for file in client.list_artifacts(mirrored.info.run_id)}
    assert {"summary.json", "config.yaml"} <= files


def test_a_lock_that_is_never_free_costs_one_line_and_only_the_mirror(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(store, "LOCK_S", 0.1)
    hold = "import fcntl, sys; fcntl.flock(file := open(sys.argv[1], 'w'), 2); print('held', flush=True); input()"
    command = [sys.executable, "-c", hold, str(tmp_path / "mlflow.lock")]
    said = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        mirrors = Background(Store(root=tmp_path), said.append)
        mirror = mirrors.add()
        mirror.start(RECORD)
        mirror.finish(folder, summary_of([]))
        mirrors.close()
        (line,) = said
        assert f"{tmp_path}/mlflow.lock is held by process {holder.pid}, not free within 0.1 s" in line
        assert "results are complete without it" in line
        write_events(tmp_path / "pipesgd" / "x" / "y", evaluation(10, 1.0, 0.8))
        with pytest.raises(FaultError, match=f"is held by process {holder.pid}"):
            sync_all(tmp_path)
        holder.communicate(b"\n")
    assert sync_all(tmp_path).done == 1


def test_sync_all_says_when_it_cannot(tmp_path, folder, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    write_events(tmp_path / "pipesgd" / "x" / "y", evaluation(10, 1.0, 0.8))
    with pytest.raises(FaultError, match=r"MLflow \(http://127.0.0.1:9\): connection refused; 0 of 1 runs"):
        sync_all(tmp_path, "http://ann:secret@127.0.0.1:9")


def test_nothing_imports_mlflow_before_a_run_starts():
    code = "import sys; from repro.tracking import Background, Store; Background(Store()).add();"
    code += "assert 'mlflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_resolved_configuration_is_enough(root):
    config = {
        "paper": "pipesgd",
        "figure": "fig4-mnist",
        "strategy": {"name": "dsync", "codec": "none"},
        "testbed": {"name": "paper/pipesgd", "kind": "simulated"},
        "dataset": {"name": "mnist", "standin": "auto"},
        "seed": 1,
    }
    recorded = {"key": "k", "hardware": {"class": "c"}, "provenance": {"started_at": "2026-01-31T12:00:00+00:00"}}
    mirror = Mirror(Store(root=root))
    mirror.start(config | recorded | {"cell": "a-cell"})
    mirror.kill(root / "pipesgd" / "fig4-mnist" / "a-cell")
    [run] = runs_of(root, "pipesgd/fig4-mnist (simulated)")[1]
    assert run.info.run_name == "dsync, simulated, seed 1" and run.info.start_time == 1769860800000
    assert run.data.tags["testbed"] == "paper/pipesgd" and run.data.tags["strategy"] == "dsync"
    assert run.data.params["strategy.codec"] == "none" and run.data.params["testbed.kind"] == "simulated"
    assert not {"key", "cell", "hardware.class", "provenance.started_at"} & set(run.data.params)


def test_kinds_are_apart_and_a_mirror_of_before_is_replaced(root, folder):
    """Before, the kinds of an experiment's runs were in one MLflow experiment."""
    client = open_store(tracking_uri(None, root), root)
    older = client.create_experiment("pipesgd/fig4-mnist")
    client.create_run(older, tags=tags(RECORD))
    others = client.create_experiment("pipesgd/fig4-mnist-other")
    client.create_run(others, tags=tags(RECORD))
    mirror = Mirror(Store(root=root))
    mirror.start(RECORD | {"key": "k2", "kind": "simulated"})
    mirror.kill(folder)
    assert client.get_experiment(older).lifecycle_stage == "active"
    folder.mkdir(parents=True)
    write_summary(folder, summary_of([evaluation(10, 1.0, 0.8), evaluation(20, 2.0, 0.9)]))
    assert sync_all(root).done == 1
    assert client.get_experiment(older).lifecycle_stage == "deleted"
    assert len(client.search_runs([others])) == 1
    assert len(runs_of(root, "pipesgd/fig4-mnist (simulated)")[1]) == 1
    [run] = runs_of(root)[1]
    assert [point.step for point in client.get_metric_history(run.info.run_id, "target/0.8")] == [0, 20]
    experiment = client.get_experiment_by_name("pipesgd/fig4-mnist (measured)")
    view = json.loads(experiment.tags[f"mlflow.sharedViewState.{SHARED_VIEW}"])
    assert "target/0.8" in view["compareRunCharts"][0]["selectedMetricKeys"]
    assert sync_all(root) == (0, 1, 0)


def test_the_machine_is_sampled_while_a_run_trains_and_shown_with_it(root, folder):
    write_events(folder, evaluation(10, 1.0, 0.8))
    with sampled(folder, every_s=0.05):
        wait_until(lambda: len(sampled_points(folder)) >= 6, "two samples")
    with open(folder / "system.jsonl", "a") as file:
        file.write('{"time": 17')  # as a command that was killed leaves it
    points = sampled_points(folder)
    assert {point.key for point in points} >= {
        "system/cpu_utilization_percentage",
        "system/system_memory_usage_megabytes",
    }
    assert all(point.value >= 0 for point in points) and points[0].timestamp <= points[-1].timestamp
    for _ in range(2):
        mirror = Mirror(Store(root=root))
        mirror.start(RECORD)
        mirror.sync(folder)
        mirror.finish(folder, summary_of([]))
    client, [run] = runs_of(root)
    history = client.get_metric_history(run.info.run_id, "system/cpu_utilization_percentage")
    assert len(history) == len([point for point in points if point.key == history[0].key])
    assert "system.jsonl" in {file.path for file in client.list_artifacts(run.info.run_id)}
