"""`repro ui`: refuses what cannot work in one line, and leaves no process behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from repro import cli
from repro.common.errors import InputError
from repro.tracking import Mirror, Store
from repro.tracking.ui import serve
from tests.reports.data.summaries import make
from tests.support.waiting import LIMIT_S, wait_until

RECORD = {"key": "k", "paper": "pipesgd", "experiment": "fig4-mnist", "setting": "D-Sync", "seed": 0}


@pytest.fixture(autouse=True)
def no_other_store(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_without_a_database_it_says_how_to_fill_it(tmp_path):
    with pytest.raises(InputError, match="run an experiment, or `repro ui --sync`"):
        serve(port=free_port(), root=tmp_path)


def test_sync_fills_the_database_before_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    run = tmp_path / "pipesgd" / "fig4-mnist" / "one"
    run.mkdir(parents=True)
    (run / "summary.json").write_text(json.dumps(make() | RECORD))
    served = []
    monkeypatch.setattr("repro.tracking.ui.serve", lambda *where: served.append((tmp_path / "mlflow.db").is_file()))
    assert cli.main(["ui", "--sync", "--port", str(free_port())]) == 0
    assert served == [True] and "1 runs mirrored to MLflow" in capsys.readouterr().out


def test_a_server_elsewhere_has_its_own_page(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://ann:secret@mlflow.example:5000")
    with pytest.raises(InputError, match=r"open https://mlflow\.example:5000 in"):
        serve(port=free_port(), root=tmp_path)


def test_a_port_in_use_is_one_line_with_another_to_choose(tmp_path):
    (tmp_path / "mlflow.db").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"127\.0\.0\.1:{port} .*in use.*--port {port + 1}") as caught:
            serve(port=port, root=tmp_path)
    assert caught.value.status == 2 and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no such port"):
        serve(port=70000, root=tmp_path)


def processes_with(text):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += [pid] if text.encode() in file.read() else []
        except OSError:
            continue
    return found


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_the_page_comes_up_and_goes_without_leaving_a_process(tmp_path):
    mirror = Mirror(Store(root=tmp_path))
    mirror.start(RECORD)
    mirror.kill(tmp_path)
    port = free_port()
    root = f"Path({str(tmp_path)!r})"
    code = f"from repro.tracking.ui import serve; from pathlib import Path; serve(port={port}, root={root})"
    command = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = [command.stdout.readline() for _ in range(3)]
        url = f"http://127.0.0.1:{port}"
        state = "workflowType=machine_learning&compareRunsMode=TABLE&viewStateShareKey=time-to-accuracy"
        assert lines[0] == f"pipesgd/fig4-mnist  {url}/#/experiments/1/runs?{state}\n"
        with urllib.request.urlopen(f"{url}/health", timeout=LIMIT_S) as answer:
            assert answer.read() == b"OK"
        assert processes_with(str(tmp_path / "mlflow.db"))
        command.send_signal(signal.SIGINT)
        assert command.wait(LIMIT_S) == 0
    finally:
        command.kill()
        command.communicate()
    wait_until(lambda: not processes_with(str(tmp_path / "mlflow.db")), "the server's processes end")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/health", timeout=2)
