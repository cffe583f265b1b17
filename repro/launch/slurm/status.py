"""`repro status`: what Slurm does with the runs of every submission, and how far each is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from repro.core import safe_files
from repro.core.errors import InputError
from repro.core.paths import results_root
from repro.launch.slurm import client, record
from repro.records import store
from repro.records.events import read_events

ORDER = ("running", "pending", "requeued", "stopped", "cancelled", "failed", "done")  # a run's state
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")
REASON = re.compile(r"^(?:repro|sbatch|srun|slurmstepd\S*): (?:error|fatal): (.*)$", re.MULTILINE)


def status(experiment: str | None = None) -> list[dict[str, Any]]:
    """Every submission with its arrays and their runs; oldest first, a run only where it was submitted last.

    Of a run: path, label, task, state (see ORDER), nodes, reason, log, iteration, iterations, metric, score, restarts.
    InputError without squeue, FaultError where it does not answer.
    """
    submissions = list(record.read(experiment))
    if not submissions:
        where = f" of {experiment}" if experiment else ""
        raise InputError(f"nothing{where} was submitted from {results_root()}: repro submit EXPERIMENT")
    client.need("squeue")
    tasks = client.queued()
    latest = {
        run["path"]: (str(folder), array["job"])
        for folder, submission in submissions
        for array in submission["arrays"]
        for run in array["runs"]
    }
    found = []
    for folder, submission in submissions:
        arrays = []
        for array in submission["arrays"]:
            job, here = array["job"], (str(folder), array["job"])
            mine = [(run, task) for run, task in record.tasks(array) if latest[run["path"]] == here]
            if not mine:
                continue
            ends = client.ended([job]) if any((job, task) not in tasks for _, task in mine) else {}
            runs = [
                run_status(folder, array, run, task, tasks.get((job, task)), ends.get((job, task)))
                for run, task in mine
            ]
            arrays.append({name: array[name] for name in ("job", "ranks", "nodes", "partition")} | {"runs": runs})
        if arrays:
            found.append({name: submission[name] for name in ("experiment", "submitted_at")} | {"arrays": arrays})
    return found


def run_status(
    folder: Path,
    array: dict[str, Any],
    run: dict[str, Any],
    number: int,
    task: client.ArrayTask | None,
    end: str | None,
) -> dict[str, Any]:
    """One run, from its folder, its task in Slurm while that is there, and how Slurm says that it ended.

    A task may have other runs too: this one then waits for its turn, or is over, while the task goes on.
    """
    place = results_root() / run["path"]
    progress = progress_of(place, run)
    log = record.log_of(folder, array["job"], number)
    reason = ""
    packed = sum(task_of == number for _, task_of in record.tasks(array)) > 1
    if task and packed and progress["finished"]:
        state = "done"
    elif task and task.state in WAITING:
        state = "requeued" if progress["started"] else "pending"
        reason = task.reason if task.reason != "None" else ""
    elif task and packed and progress["failure"]:
        state, reason = "failed", progress["failure"]
    elif task:
        state = "pending" if packed and not progress["started"] else "running"
    elif progress["finished"]:
        state = "done"
    elif end == "CANCELLED":
        state = "cancelled"
    else:
        reason = progress["failure"] or last_error(log) or (f"Slurm: {end}" if end and end != "COMPLETED" else "")
        state = "failed" if reason or end else "stopped"
    return {
        "path": run["path"],
        "label": run["label"],
        "task": number,
        "state": state,
        "nodes": task.nodes if task else "",
        "metric": run["metric"],
        "reason": reason,
        "log": str(log) if log.exists() else None,
        **{name: progress[name] for name in ("iteration", "iterations", "score", "restarts")},
    }


def progress_of(place: Path, run: dict[str, Any]) -> dict[str, Any]:
    """How far a run is, by its events and record."""
    events = read_events(place / "events.jsonl")
    record = store.usable(place)
    begun = [event for event in events if event["event"] == "run_start"]
    evaluations = [event for event in events if event["event"] == "evaluation"]
    last = events[-1] if events else {"event": None}
    return {
        "started": bool(begun),
        "finished": bool(events) and record is not None and record.key == run["key"],
        "failure": last["reason"] if last["event"] in ("failed", "diverged") else None,
        "iteration": max((event.get("iteration") or 0 for event in events), default=0),
        "iterations": begun[-1].get("iterations") if begun else None,
        "score": evaluations[-1].get(run["metric"]) if evaluations else None,
        "restarts": sum(event["event"] == "resume" for event in events),
    }


def last_error(log: Path) -> str | None:
    """The last error line of a task's output."""
    try:
        found = REASON.findall(safe_files.read(log).decode("utf-8", "replace"))
    except OSError:
        return None
    return found[-1] if found else None


def lines(found: list[dict[str, Any]]) -> list[str]:
    """The same for people: a head for each array, a line for each run, and one that counts."""
    shown: list[str] = []
    counts = dict.fromkeys(ORDER, 0)
    width = max(len(run["label"]) for submission in found for array in submission["arrays"] for run in array["runs"])
    for submission in found:
        for array in submission["arrays"]:
            where = f"{array['ranks']} ranks on {array['nodes']} node{'s' * (array['nodes'] > 1)}"
            partition = f", partition {array['partition']}" if array["partition"] else ""
            at = submission["submitted_at"].replace("T", " ")[:16]
            shown.append(f"{submission['experiment']}: job {array['job']}, {where}{partition}, submitted {at} UTC")
            for run in array["runs"]:
                counts[run["state"]] += 1
                shown.append(f"  {run['state']:9} {run['label']:{width}}  {details(run)}".rstrip())
    shown.append(", ".join(f"{number} {state}" for state, number in counts.items() if number))
    return shown


def details(run: dict[str, Any]) -> str:
    parts = []
    if run["iterations"]:
        parts.append(f"iteration {run['iteration']} of {run['iterations']}")
    if run["score"] is not None:
        parts.append(f"{run['metric']} {run['score']:.4f}")
    if run["restarts"]:
        parts.append(f"resumed {run['restarts']}x")
    if run["nodes"]:
        parts.append(f"on {run['nodes']}")
    if run["reason"]:
        parts.append(run["reason"])
    return ", ".join(parts)
