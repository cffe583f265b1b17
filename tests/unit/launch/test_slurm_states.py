"""The status of submitted runs, from their folders and the output of Slurm's commands."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from repro.launch.slurm import client, status, submit
from repro.records.events import line_of
from tests.reports.data.summaries import make
from tests.support.records import write_summary


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))


@pytest.fixture
def submitted(tmp_path, monkeypatch):
    """Record a submission of runs with their events as the array of job 7; returns its folder."""

    def submit(names, events, **array):
        listed = [{"path": f"p/e/{name}", "label": name, "key": name, "metric": "top1", **array} for name in names]
        array = {"job": "7", "script": "job.sbatch", "ranks": 2, "nodes": 1, "partition": None, "runs": listed}
        folder = status.submissions_root() / "20260101-000000-p-e"
        folder.mkdir(parents=True)
        status.write_submission(
            folder, {"experiment": "p/e", "submitted_at": "2026-01-01T00:00:00+00:00", "arrays": [array]}
        )
        for name in names:
            place = tmp_path / "results" / "p" / "e" / name
            place.mkdir(parents=True)
            (place / "events.jsonl").write_text("".join(line_of(**event) + "\n" for event in events[name]))
        return folder

    monkeypatch.setattr(client, "need_program", lambda program: program)
    return submit


BEGUN = [
    {"event": "run_start", "iteration": 0, "iterations": 90},
    {"event": "evaluation", "iteration": 30, "top1": 0.5},
]


def only_run():
    [run] = status.submission_status("p")[0]["arrays"][0]["runs"]
    return run


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("state", "waits"),
    [
        *((state, True) for state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")),
        ("RESV_DEL_HOLD", True),
        *((state, False) for state in ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "STAGE_OUT")),
        *((state, False) for state in ("RESIZING", "SIGNALING")),
    ],
)
def test_every_state_of_squeue(submitted, monkeypatch, state, waits, begun):
    submitted(["a"], {"a": BEGUN if begun else []})
    monkeypatch.setattr(client, "queued_tasks", lambda: {("7", 0): client.ArrayTask(state, reason="Resources")})
    expected = {False: "pending", True: "requeued"}[begun] if waits else "running"
    run = only_run()
    assert (run["state"], run["reason"]) == (expected, "Resources" if waits else "")


@pytest.mark.parametrize(
    ("end", "state", "reason"),
    [
        ("CANCELLED", "cancelled", ""),
        ("COMPLETED", "failed", ""),  # without a summary
        *((end, "failed", f"Slurm: {end}") for end in client.ENDED if end not in ("CANCELLED", "COMPLETED")),
        (None, "stopped", ""),
    ],
)
def test_every_end_of_a_job(submitted, monkeypatch, end, state, reason):
    submitted(["a"], {"a": BEGUN})
    monkeypatch.setattr(client, "queued_tasks", dict)
    monkeypatch.setattr(client, "ended_tasks", lambda job: {(job, 0): end} if end else {})
    assert (only_run()["state"], only_run()["reason"]) == (state, reason)


def test_a_failed_run_has_its_own_reason_or_the_last_error_of_its_log(submitted, tmp_path, monkeypatch):
    lost = [*BEGUN, {"event": "failed", "reason": "rank 1 was lost"}]
    folder = submitted(
        ["done", "running", "failed", "early"], {"done": BEGUN, "running": BEGUN, "failed": lost, "early": []}
    )
    write_summary(tmp_path / "results/p/e/done", make("D-Sync", key="done"))
    (folder / "7_3.log").write_text("2026 start 1\nrepro: error: node n3: no checkout at /x\n")
    monkeypatch.setattr(client, "queued_tasks", lambda: {("7", 1): client.ArrayTask("RUNNING", "n[1-2]", "None")})
    monkeypatch.setattr(client, "ended_tasks", lambda job: {(job, 3): "FAILED"})
    shown = status.submission_status("p")
    runs = {run["label"]: (run["state"], run["reason"]) for run in shown[0]["arrays"][0]["runs"]}
    assert runs == {
        "done": ("done", ""),
        "running": ("running", ""),
        "failed": ("failed", "rank 1 was lost"),
        "early": ("failed", "node n3: no checkout at /x"),
    }
    text = "\n".join(status.status_lines(shown))
    assert "running   running  iteration 30 of 90, top1 0.5000, on n[1-2]" in text
    assert text.endswith("1 running, 2 failed, 1 done")


SQUEUE = "7|0|RUNNING|n1|None\n7|1|PENDING||Resources\n8|N/A|RUNNING|n2|None\n"
SACCT = "7_0|COMPLETED\n7_1|CANCELLED by 0\n7_2|RUNNING\n7_[3-4]|PENDING\n"
SCONTROL = (
    "JobId=9 ArrayJobId=7 ArrayTaskId=0 JobState=FAILED Reason=None\n"
    "JobId=7 ArrayJobId=7 ArrayTaskId=2-3,5%2 JobState=CANCELLED Reason=None\n"
    "JobId=10 ArrayJobId=7 ArrayTaskId=1 JobState=RUNNING\n"
)


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        (("sacct", "scontrol"), {0: "COMPLETED", 1: "CANCELLED"}),
        (("scontrol",), {0: "FAILED", 2: "CANCELLED", 3: "CANCELLED", 5: "CANCELLED"}),
        ((), {}),
    ],
)
def test_what_slurm_prints_is_parsed(monkeypatch, programs, expected):
    outputs = {"squeue": SQUEUE, "sacct": SACCT, "scontrol": SCONTROL}
    monkeypatch.setattr(client, "need_program", lambda program: program)
    monkeypatch.setattr(client.shutil, "which", lambda program: program if program in programs else None)
    monkeypatch.setattr(client, "_run", lambda *command, **_: SimpleNamespace(returncode=0, stdout=outputs[command[0]]))
    assert client.ended_tasks("7") == {("7", number): state for number, state in expected.items()}
    assert client.queued_tasks() == {
        ("7", 0): client.ArrayTask("RUNNING", "n1", "None"),
        ("7", 1): client.ArrayTask("PENDING", "", "Resources"),
    }


def test_runs_of_one_task_have_their_own_states(submitted, tmp_path, monkeypatch):
    events = {"over": ["run_start"], "bad": ["run_start", "failed"], "now": ["run_start"], "next": []}
    logs = {name: [{"event": each, "reason": "lost", "iterations": 9} for each in of] for name, of in events.items()}
    submitted([*events], logs, task=0)
    write_summary(tmp_path / "results/p/e/over", make("D-Sync", key="over"))
    task = {("7", 0): client.ArrayTask("RUNNING", "n1")}
    monkeypatch.setattr(client, "queued_tasks", lambda: task)

    def states():
        return [run["state"] for run in status.submission_status()[0]["arrays"][0]["runs"]]

    assert states() == ["done", "failed", "running", "pending"]
    assert submit.busy_keys() == set(events)  # those that wait for their turn, or will be tried again
    task["7", 0] = client.ArrayTask("PENDING", reason="BeginTime")
    assert states() == ["done", "requeued", "requeued", "pending"]
    task.clear()
    monkeypatch.setattr(client, "ended_tasks", lambda job: {(job, 0): "TIMEOUT"})
    assert states() == ["done", "failed", "failed", "failed"]
