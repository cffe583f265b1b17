"""What `repro status` says of submitted runs, from their folders and Slurm's words."""

from __future__ import annotations

import pytest

from repro.launch.slurm import client, record, status, submit
from repro.records.events import line_of
from tests.reports.data.summaries import make
from tests.support.records import write_summary


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))


@pytest.fixture
def submitted(tmp_path, monkeypatch):
    """Records a submission of runs, run -> its events, as an array of job 7; returns the folder of its output."""

    def submit(names, events, **array):
        listed = [{"path": f"p/e/{name}", "label": name, "key": name, "metric": "top1", **array} for name in names]
        array = {"job": "7", "script": "job.sbatch", "ranks": 2, "nodes": 1, "partition": None, "runs": listed}
        folder = record.root() / "20260101-000000-p-e"
        folder.mkdir(parents=True)
        record.write(folder, {"experiment": "p/e", "submitted_at": "2026-01-01T00:00:00+00:00", "arrays": [array]})
        for name in names:
            place = tmp_path / "results" / "p" / "e" / name
            place.mkdir(parents=True)
            (place / "events.jsonl").write_text("".join(line_of(**event) + "\n" for event in events[name]))
        return folder

    monkeypatch.setattr(client, "need", lambda program: program)
    return submit


def test_the_states_of_runs(submitted, tmp_path, monkeypatch):
    names = ["done", "running", "pending", "requeued", "cancelled", "failed", "early", "stopped"]
    begun = [
        {"event": "run_start", "iteration": 0, "iterations": 90},
        {"event": "evaluation", "iteration": 30, "top1": 0.5},
    ]
    lost = [*begun, {"event": "failed", "reason": "rank 1 was lost"}]
    folder = submitted(names, dict.fromkeys(names, begun) | {"pending": [], "early": [], "failed": lost})
    write_summary(tmp_path / "results/p/e/done", make("D-Sync", key="done"))
    (folder / "7_6.log").write_text("2026 start 1\nrepro: error: node n3: no checkout at /x\n")
    waiting = client.ArrayTask("PENDING", reason="Resources")
    tasks = {("7", 1): client.ArrayTask("RUNNING", "n[1-2]"), ("7", 2): waiting, ("7", 3): waiting}
    monkeypatch.setattr(client, "queued", lambda: tasks)
    monkeypatch.setattr(client, "ended", lambda jobs: {("7", 4): "CANCELLED", ("7", 6): "FAILED"})
    found = status.status("p")
    by_label = {run["label"]: run for run in found[0]["arrays"][0]["runs"]}
    states = {name: run["state"] for name, run in by_label.items()}
    assert states == {name: name for name in names} | {"early": "failed"}
    assert by_label["early"]["reason"] == "node n3: no checkout at /x"
    assert by_label["failed"]["reason"] == "rank 1 was lost"
    text = "\n".join(status.lines(found))
    assert "running   running    iteration 30 of 90, top1 0.5000, on n[1-2]" in text
    assert text.endswith("1 running, 1 pending, 1 requeued, 1 stopped, 1 cancelled, 2 failed, 1 done")


def test_runs_of_one_job_are_told_apart(submitted, tmp_path, monkeypatch):
    events = {"over": ["run_start"], "bad": ["run_start", "failed"], "now": ["run_start"], "next": []}
    told = {name: [{"event": each, "reason": "lost", "iterations": 9} for each in of] for name, of in events.items()}
    submitted([*events], told, task=0)
    write_summary(tmp_path / "results/p/e/over", make("D-Sync", key="over"))
    task = {("7", 0): client.ArrayTask("RUNNING", "n1")}
    monkeypatch.setattr(client, "queued", lambda: task)

    def states():
        return [run["state"] for run in status.status()[0]["arrays"][0]["runs"]]

    assert states() == ["done", "failed", "running", "pending"]
    assert submit.busy_keys() == set(events)  # they wait for their turn, or the job will try them again
    task["7", 0] = client.ArrayTask("PENDING", reason="BeginTime")
    assert states() == ["done", "requeued", "requeued", "pending"]
    task.clear()
    monkeypatch.setattr(client, "ended", lambda jobs: {("7", 0): "TIMEOUT"})
    assert states() == ["done", "failed", "failed", "failed"]
