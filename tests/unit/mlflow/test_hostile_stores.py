"""A database or a server of somebody else: where files go, and how much of a response is read."""

import gzip
import itertools
import json

import pytest

from repro.answers.mlflow import Store, send_run, server_responses, sync_all
from repro.answers.mlflow.source import of_folder
from repro.core.errors import FaultError
from tests.support.hostile_server import hostile_server
from tests.unit.mlflow.made import evaluation, runs_of, write_events, write_finished

EXPERIMENT = "pipesgd/fig4-mnist (measured)"
OK = b"HTTP/1.0 200 OK\r\n"


@pytest.fixture
def victim(tmp_path):
    folder = tmp_path / "victim"
    folder.mkdir()
    return folder


def test_a_database_that_names_another_folder_gets_no_files(root, folder, victim, capsys):
    store = Store(root=root)
    store.client.create_experiment(EXPERIMENT, victim.as_uri())
    write_finished(folder, [evaluation(10, 1.0, 0.8)])
    assert sync_all(root).done == 1
    assert list(victim.iterdir()) == [] and runs_of(root)[1][0].info.status == "FINISHED"
    assert "wants files of runs outside of" in capsys.readouterr().err


def test_files_do_not_follow_a_link_out_of_the_results_folder(root, folder, victim, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_RESULTS", str(root))
    write_events(folder, evaluation(10, 1.0, 0.8))
    send_run(Store(root=root), of_folder(folder), running=True)
    run = runs_of(root)[1][0].info.run_id
    place = root / "mlflow-artifacts" / EXPERIMENT
    place.mkdir(parents=True)
    (place / run).symlink_to(victim)
    write_finished(folder, [evaluation(10, 1.0, 0.8)])
    assert sync_all(root).done == 0
    assert list(victim.iterdir()) == [] and "is a link" in capsys.readouterr().err


def tracking_server(artifact_uri):
    """The answers of a server that has one experiment, no runs, and creates runs with these artifacts."""
    info = {"run_id": "abc", "experiment_id": "1", "status": "RUNNING", "artifact_uri": artifact_uri, "start_time": 1}
    contents = {
        "experiments/get-by-name": {"experiment": {"experiment_id": "1", "name": "x", "lifecycle_stage": "active"}},
        "runs/create": {"run": {"info": info, "data": {}}},
    }

    def answer(line, _):
        content = next((value for path, value in contents.items() if f"/{path}" in line), {})
        yield OK + b"\r\n" + json.dumps(content).encode()

    return answer


PLACES = {
    "mlflow-artifacts:/1/abc/artifacts": "/api/2.0/mlflow-artifacts/artifacts/1/abc/artifacts",
    "mlflow-artifacts:/../../other": None,
    "mlflow-artifacts:/%2e%2e/other": None,
    "mlflow-artifacts://{other}/1/abc": None,
    "http://{other}/1/abc": None,
    "file://{victim}": None,
    "{victim}": None,
}


@pytest.mark.parametrize(("place", "path"), PLACES.items())
def test_a_server_gets_files_itself_or_not_at_all(root, folder, victim, place, path):
    write_finished(folder, [evaluation(10, 1.0, 0.8)])
    with hostile_server(lambda *_: [OK + b"\r\n{}"]) as other:
        host = other.address.split("/")[2]
        with hostile_server(tracking_server(place.format(victim=victim, other=host))) as server:
            assert sync_all(root, server.address.rstrip("/")).done == 1
    assert list(victim.iterdir()) == [] and other.requests == []
    sent = {line.split()[1] for line in server.requests if line.startswith("PUT")}
    assert sent == ({f"{path}/summary.json"} if path else set())


def test_a_server_cannot_send_files_on_to_another_address(root, folder):
    write_finished(folder, [evaluation(10, 1.0, 0.8)])
    usual = tracking_server("mlflow-artifacts:/1/abc/artifacts")
    with hostile_server(lambda *_: [OK + b"\r\n{}"]) as other:
        away = f"HTTP/1.0 307 Away\r\nLocation: {other.address}\r\nContent-Length: 0\r\n\r\n".encode()
        with hostile_server(lambda line, body: [away] if line.startswith("PUT") else usual(line, body)) as server:
            with pytest.raises(FaultError, match="it redirects to another address"):
                sync_all(root, server.address.rstrip("/"))
    assert other.requests == []


ENDLESS = {
    "body": (OK + b"\r\n", b" " * 2**20),
    "body that MLflow discards": (b"HTTP/1.0 503 Busy\r\n\r\n", b" " * 2**20),
    "compressed body": (OK + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(bytes(2**26))),
}


@pytest.mark.parametrize(("start", "piece"), ENDLESS.values(), ids=ENDLESS)
def test_an_endless_response_is_cut(root, folder, monkeypatch, start, piece):
    monkeypatch.setattr(server_responses, "MOST_BYTES", 2**20)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    write_finished(folder)
    with hostile_server(lambda *_: itertools.chain([start], itertools.repeat(piece, 2**27 // len(piece)))) as server:
        with pytest.raises(FaultError):
            sync_all(root, server.address.rstrip("/"))
        assert server.requests and not server.whole
