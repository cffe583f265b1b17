"""MLflow on a server: runs mirrored over HTTP; runs finish without delay if the server is down, silent or killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from repro.answers.mlflow import BestEffort, Store, best_effort, open_store
from repro.answers.mlflow.best_effort import SERVER_WAIT_S
from tests.support import cli
from tests.support.cli import EXPERIMENT, QUICK
from tests.support.records import read_summary, summaries
from tests.support.waiting import LIMIT_S, wait_until
from tests.unit.mlflow.made import write_events

OVERRIDES = [*QUICK, "strategy=dsync", "testbed=here"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A tracking server as somebody would run one for a group: a database, a folder of files, HTTP."""

    def __init__(self, folder: Path):
        self.folder, self.port, self.process = folder, free_port(), None
        self.uri = f"http://127.0.0.1:{self.port}"
        open_store(f"sqlite:///{folder}/server.db", folder)  # quicker here than in the server's processes
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(self.port)]
        command += ["--host", "127.0.0.1", "--backend-store-uri", f"sqlite:///{self.folder}/server.db"]
        command += ["--serve-artifacts", "--artifacts-destination", str(self.folder / "files")]
        variables = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        log = open(self.folder / "server.log", "a")  # noqa: SIM115 - the server's
        self.process = subprocess.Popen(
            command, env=os.environ | variables, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_until(self.answers, "the server answers", over=lambda: self.process.poll() is not None)
        except AssertionError as error:
            self.stop()
            raise AssertionError((self.folder / "server.log").read_text()) from error

    def answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.uri}/health", timeout=LIMIT_S) as answer:
            return answer.status == 200
        return False

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = Server(tmp_path_factory.mktemp("server"))
    yield started
    started.stop()


@contextlib.contextmanager
def silent_server():
    """Accepts every connection and never says a word."""
    accepted = []
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(listening.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://ann:secret@127.0.0.1:{listening.getsockname()[1]}", accepted
        listening.shutdown(socket.SHUT_RDWR)
    for connection in accepted:
        connection.close()


def command(results: Path, uri: str, *arguments: str) -> subprocess.Popen:
    environment = os.environ | {"REPRO_RESULTS": str(results), "REPRO_REPORTS": str(results.parent / "reports")}
    environment |= {"MLFLOW_TRACKING_URI": uri}
    process = [sys.executable, "-m", "repro", *arguments]
    return subprocess.Popen(process, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def repro(results: Path, uri: str, *arguments: str) -> tuple[str, str]:
    """Standard output and error of a command that ends well."""
    done = cli.repro(results, *arguments, tracking_uri=uri)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def run(results: Path, uri: str, *overrides: str) -> tuple[dict, str]:
    out, err = repro(results, uri, "run", EXPERIMENT, "--json", *OVERRIDES, *overrides)
    (summary,) = summaries(out)
    return summary, err


def runs_of(server: Server, key: str):
    client = open_store(server.uri, server.folder)
    experiment = client.get_experiment_by_name(f"{EXPERIMENT} (measured)")
    found = client.search_runs([experiment.experiment_id], f"tags.`repro.key` = '{key}'") if experiment else []
    return client, found


def check_complete(server: Server, summary: dict, tmp_path: Path) -> None:
    """One run of that run: curve, numbers, parameters, tags and files, each once."""
    client, [run] = runs_of(server, summary["key"])
    assert run.info.status == "FINISHED"
    history = client.get_metric_history(run.info.run_id, "top1")
    assert [(point.step, point.value) for point in history] == [(p["iteration"], p["top1"]) for p in summary["curve"]]
    times = [round(1000 * p["train_s"]) for p in summary["curve"]]
    assert [point.timestamp - run.info.start_time for point in history] == times
    assert run.data.metrics["final/top1"] == summary["final"]["top1"]
    assert run.data.params["workers"] == "2" and run.data.params["strategy.name"] == "dsync"
    assert run.data.tags["kind"] == "measured" and run.data.tags["stand_in"] == "True"
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {
        "summary.json",
        "config.yaml",
        "events.jsonl",
        "system.jsonl",
    }
    fetched = client.download_artifacts(run.info.run_id, "summary.json", str(tmp_path))
    assert summaries(f"[{Path(fetched).read_text()}]") == [summary]


@pytest.mark.ranks
def test_ranks_of_a_real_run_are_mirrored_over_http_with_files(server, tmp_path):
    summary, err = run(tmp_path / "results", server.uri)
    assert "warning" not in err
    check_complete(server, summary, tmp_path)
    assert list((server.folder / "files").rglob("events.jsonl"))
    assert not (tmp_path / "results" / "mlflow.db").exists()
    assert repro(tmp_path / "results", server.uri, "track", "sync")[0].startswith(
        "0 runs mirrored to MLflow, 1 mirrored before"
    )


@pytest.mark.ranks
def test_with_the_server_down_the_run_goes_on_and_sync_sends_it_later(server, tmp_path):
    results = tmp_path / "results"
    summary, err = run(results, f"http://ann:secret@127.0.0.1:{free_port()}", "seed=7")
    warnings = [line for line in err.splitlines() if "MLflow" in line]
    assert len(warnings) == 1 and "connection refused" in warnings[0] and "`repro track sync`" in warnings[0]
    assert "secret" not in err and "Traceback" not in err and "urllib3" not in err
    assert runs_of(server, summary["key"])[1] == []
    assert repro(results, server.uri, "track", "sync")[0].startswith("1 runs mirrored to MLflow, 0 mirrored before")
    check_complete(server, summary, tmp_path)
    assert repro(results, server.uri, "track", "sync")[0].startswith("0 runs mirrored to MLflow, 1 mirrored before")


@pytest.mark.ranks
def test_a_silent_server_is_waited_for_once_and_every_run_is_complete(tmp_path):
    results = tmp_path / "results"
    with silent_server() as (uri, accepted):
        out, err = repro(results, uri, "run", EXPERIMENT, "--json", *OVERRIDES, "seeds=2")
        assert accepted
    assert len(json.loads(out)) == 2 and all(read_summary(path.parent) for path in results.rglob("events.jsonl"))
    [line] = [line for line in err.splitlines() if "MLflow" in line]
    assert line.startswith("warning") and f"within {SERVER_WAIT_S:.0f} s" in line and "`repro track sync`" in line
    assert SERVER_WAIT_S <= 10 and "secret" not in err and "Traceback" not in err


def test_a_silent_server_is_not_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr("repro.answers.mlflow.best_effort.SERVER_WAIT_S", 0.2)
    warnings, runs = [], [tmp_path / "p" / "e" / name for name in "ab"]
    for run in runs:
        write_events(run)
    with silent_server() as (uri, accepted):
        mirrors = BestEffort(Store(uri, tmp_path), warnings.append)
        for run in runs:
            mirrors.begin(run)
            mirrors.live(run)
            mirrors.end(run)
        wait_until(lambda: accepted, "the first request")
        assert len(accepted) == 1
    [line] = warnings
    assert "secret" not in line


def test_live_values_wait_for_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("repro.answers.mlflow.best_effort.SERVER_WAIT_S", 0.2)
    warnings, run = [], tmp_path / "p" / "e" / "a"
    write_events(run)
    with silent_server() as (uri, accepted):
        mirrors = BestEffort(Store(uri, tmp_path), warnings.append)
        for _ in range(1000):
            mirrors.live(run)
        wait_until(lambda: accepted, "the first request")
        assert len(accepted) == 1 and not warnings
        mirrors.end(run, interrupted=True)
    assert len(warnings) == 1


def test_a_server_that_refuses_costs_one_warning_and_is_tried_with_the_next_run(tmp_path, monkeypatch):
    warnings, tried = [], []
    monkeypatch.setattr(best_effort, "send_run", lambda store, source, running: tried.append(source.folder) or 1 / 0)
    mirrors = BestEffort(Store(f"http://127.0.0.1:{free_port()}", tmp_path), warnings.append)
    runs = [tmp_path / "p" / "e" / name for name in "ab"]
    for run in runs:
        write_events(run)
        mirrors.begin(run)
        mirrors.end(run)
    assert tried == runs and len(warnings) == 1


@pytest.mark.ranks
def test_a_server_killed_in_the_middle_gets_the_rest_once(server, tmp_path):
    results = tmp_path / "results"
    process = command(results, server.uri, "run", EXPERIMENT, "--json", *OVERRIDES, "epochs=40", "eval_every=1")
    client = open_store(server.uri, server.folder)

    def running():
        experiment = client.get_experiment_by_name(f"{EXPERIMENT} (measured)")
        mirrored = "status = 'RUNNING' and tags.`repro.key` LIKE '%'"  # not the run of the variant, which has no key
        return experiment and client.search_runs([experiment.experiment_id], mirrored)

    wait_until(running, "the run is mirrored", over=lambda: process.poll() is not None)
    server.stop()
    try:
        assert process.poll() is None, "the run was over before its server"
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        server.start()
    assert process.returncode == 0 and err.count("warning: MLflow") == 1, err
    (summary,) = summaries(out)
    assert [run.info.status for run in runs_of(server, summary["key"])[1]] == ["RUNNING"]
    assert repro(results, server.uri, "track", "sync")[0].startswith("1 runs mirrored to MLflow, 0 mirrored before")
    check_complete(server, summary, tmp_path)
    assert repro(results, server.uri, "track", "sync")[0].startswith("0 runs mirrored to MLflow, 1 mirrored before")


def test_a_malformed_address_ends_the_command_before_anything_runs(tmp_path):
    done = cli.repro(tmp_path / "results", "run", EXPERIMENT, *OVERRIDES, tracking_uri="htp://ann:secret@host")
    err = done.stderr
    assert done.returncode == 2 and "Traceback" not in err and "secret" not in err
    [line] = [line for line in err.splitlines() if "MLFLOW_TRACKING_URI" in line]
    assert line.startswith("repro: error: MLFLOW_TRACKING_URI=htp://host: unknown scheme 'htp'")
    assert not list((tmp_path / "results").rglob("events.jsonl"))
