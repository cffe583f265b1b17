"""The metrics and tags of a run, the state of MLflow's pages, and `repro ui`."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from repro.answers.mlflow import Store, send_run
from repro.answers.mlflow.format import curve_points, final_metrics, parameters, tags
from repro.answers.mlflow.ui import serve, where
from repro.answers.mlflow.view import MOST_COLUMNS, shared_view, where_it_matters
from repro.cli import main as cli
from repro.core.errors import InputError
from tests.support.records import record_of
from tests.support.waiting import LIMIT_S, wait_until
from tests.unit.mlflow.made import planned, runs_of, summary_of, write_finished

# --- metrics, tags and pages


def test_a_run_of_slept_computation_is_emulated_before_its_summary_says_so():
    assert tags(planned(program="validation", probe={"computation": "sleep"}))["kind"] == "emulated"
    assert tags(planned(min_compute_s=0.5))["kind"] == "measured, padded"


def test_formats():
    points = curve_points([{"iteration": 5, "train_s": 0.5, "loss": None, "top1": 1, "flag": True, "event": "e"}], 1000)
    assert [(each.key, each.step, each.timestamp) for each in points if not math.isnan(each.value)] == [
        ("train_s", 5, 1500),
        ("top1", 5, 1500),
    ]
    assert parameters({"a": {"b +": 1}, "sources": {"x": 1}, "minor": ["device"], "changed": ["a"]}) == {"a.b _": "1"}
    assert "final/test_loss" not in final_metrics(record_of(summary_of([])))
    assert tags(planned(dataset={"name": "mnist", "standin": "auto"}))["dataset"] == "mnist"


class Data:
    """The data of a run in MLflow."""

    def __init__(self, params, metrics):
        self.tags, self.params, self.metrics = {}, params, metrics


def test_a_page_shows_what_differs_the_scores_where_they_end_and_the_longest_parts_of_a_step():
    same = {"epochs": "5", **{f"model.option{index}": "1" for index in range(30)}}
    runs = [
        Data(same | {"factors.codec": codec, "optimizer.lr": lr, "strategy.codec": codec},
             {"top1": top1, "final/top1": top1, "time_to/0.98_s": 4.0, "step/mean_ms": 9.0, "phases/forward_ms": 3.0,
              "phases/communicate_ms": sent, "phases/wait_ms": 0.0})
        for codec, lr, top1, sent in (("none", "0.1", 0.97, 2.0), ("T", "0.2", 0.99, 6.0))
    ]  # fmt: skip
    view = shared_view("top1", runs)
    assert [column for column in view["selectedColumns"] if column.startswith("params")] == [
        "params.`factors.codec`",
        "params.`optimizer.lr`",
    ]
    assert "metrics.`time_to/0.98_s`" in view["selectedColumns"]
    by_time = view["compareRunCharts"][0]
    assert by_time["selectedMetricKeys"] == ["top1"]
    assert "test_loss" not in {chart["metricKey"] for chart in view["compareRunCharts"]}, "no run has it"
    assert by_time["range"] == {"yMin": pytest.approx(0.95), "yMax": pytest.approx(0.994)}
    bars = [chart["metricKey"] for chart in view["compareRunCharts"] if chart["type"] == "BAR"]
    assert bars == ["time_to/0.98_s", "step/mean_ms", "phases/communicate_ms", "phases/forward_ms"]
    opened = [section["name"] for section in view["compareRunSections"] if section["display"]]
    assert opened[:2] == ["Time to accuracy", "Breakdown of a step (ms)"]
    assert where_it_matters("perplexity", [Data({}, {"final/perplexity": value}) for value in (100, 120)]) == {
        "yMin": 96, "yMax": 140
    }  # fmt: skip
    far = [Data({}, {"final/top1": value}) for value in (0.1, 1.0)]
    assert where_it_matters("top1", far) == {"yMin": 0, "yMax": 1}, "no score that cannot be"
    assert where_it_matters("top1", [Data({}, {"final/top1": 0.5})]) == where_it_matters("top1", []) == {}
    many = [Data({f"testing.a-long-name-{index}": str(run) for index in range(99)}, {}) for run in range(2)]
    shown = [column for column in shared_view("top1", many)["selectedColumns"] if column.startswith("params")]
    # the same ones in every command
    assert shown == [f"params.`{name}`" for name in sorted(many[0].params)[:MOST_COLUMNS]]
    assert len(json.dumps(shared_view("top1", many))) < 5000  # MLflow's limit of an experiment's tag


# --- `repro ui`


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_without_a_database_it_says_how_to_fill_it(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(InputError, match="run an experiment, or `repro ui --sync`"):
        serve(port=free_port(), root=tmp_path)


def test_sync_fills_the_database_before_the_page(root, folder, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_RESULTS", str(root))
    write_finished(folder)
    served = []
    monkeypatch.setattr("repro.answers.mlflow.ui.serve", lambda *where: served.extend(runs_of(root)[1]))
    assert cli.main(["ui", "--sync", "--port", str(free_port())]) == 0
    assert len(served) == 1 and "1 runs mirrored to MLflow" in capsys.readouterr().out


def test_a_server_elsewhere_has_its_own_page(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://ann:secret@mlflow.example:5000")
    with pytest.raises(InputError, match=r"open https://mlflow\.example:5000 in"):
        serve(port=free_port(), root=tmp_path)


def test_a_port_in_use_is_one_line_with_another_to_choose(root):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"127\.0\.0\.1:{port} .*in use.*--port {port + 1}") as caught:
            serve(port=port, root=root)
    assert caught.value.status == 2 and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no such port"):
        serve(port=70000, root=root)


def processes_with(text):
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [command] if text.encode() in command.read_bytes() else []
    return found


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_the_page_comes_up_and_goes_without_leaving_a_process(root):
    send_run(Store(root=root), planned(folder=root))
    port = free_port()
    code = "from repro.answers.mlflow.ui import serve; from pathlib import Path; "
    code += f"serve(port={port}, root=Path({str(root)!r}))"
    command = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = [command.stdout.readline() for _ in range(3)]
        url = f"http://127.0.0.1:{port}"
        state = "workflowType=machine_learning&compareRunsMode=CHART&viewStateShareKey=time-to-accuracy"
        assert lines[0] == f"pipesgd/fig4-mnist (measured)  {url}/#/experiments/1/runs?{state}\n"
        with urllib.request.urlopen(f"{url}/health", timeout=LIMIT_S) as answer:
            assert answer.read() == b"OK"
        assert processes_with(str(root / "mlflow.db"))
        command.send_signal(signal.SIGINT)
        assert command.wait(LIMIT_S) == 0
    finally:
        command.kill()
        command.communicate()
    wait_until(lambda: not processes_with(str(root / "mlflow.db")), "the server's processes end")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/health", timeout=2)


def test_a_command_says_where_its_runs_are_shown(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@host:5000")
    assert "host:5000" in where([]) and "secret" not in where([])
    for none in ("", "nowhere://x"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", none)
        assert where([]) == "repro ui"
