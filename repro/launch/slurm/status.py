"""`repro status`: records of submissions, the state of every submitted run in Slurm, and its progress.

    {"experiment", "submitted_at", "command", "arrays": [{"job", "script", "ranks", "nodes", "partition", "messages",
     "runs": [{"path" (below the results folder), "label", "key", "metric", "task"}, ...]}, ...]}

task: the number of the array's task that executes the run; a task executes its runs in their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from repro.core import safe_files, user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import EVENTS_FILE, SUBMISSIONS, results_root
from repro.experiment.config import experiment_names
from repro.launch.slurm import client
from repro.records import store
from repro.records.events import end_in, read_events


def submissions_root() -> Path:
    return results_root() / SUBMISSIONS


def new_folder(experiment: str) -> Path:
    """The folder of a new submission, named by time; not created."""
    stem = f"{datetime.now():%Y%m%d-%H%M%S}-{experiment.replace('/', '-')}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    return next(folder for name in names if not (folder := submissions_root() / name).exists())


def log_of(folder: Path, job: str, task: int) -> Path:
    """The output of one task, as set by the script's `--output`."""
    return folder / f"{job}_{task}.log"


def write_submission(folder: Path, submission: dict[str, Any]) -> None:
    write_atomically(folder / "submission.json", json.dumps(submission, indent=1) + "\n")


def array_tasks(array: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
    """The runs of an array with their task numbers; if the record has none, run n has task n."""
    return [(run, run.get("task", number)) for number, run in enumerate(array["runs"])]


def read_submissions(experiment: str | None = None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every submission, or those of an experiment or paper, oldest first."""
    for path in sorted(submissions_root().glob("*/submission.json")):
        try:
            submission = user_files.parse_json(safe_files.read_safely(path))
            name = submission["experiment"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: not a readable submission ({error}); remove its folder to forget it") from None
        if experiment in (None, name, name.split("/")[0]):
            yield path.parent, submission


STATES = ("running", "pending", "requeued", "stopped", "cancelled", "failed", "done")  # of a run, in order of display
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")  # squeue's states
ERROR_LINE = re.compile(r"^(?:repro|sbatch|srun|slurmstepd\S*): (?:error|fatal): (.*)$", re.MULTILINE)


def submission_status(experiment: str | None = None) -> list[dict[str, Any]]:
    """Every submission with its arrays and their runs, oldest first; a run only in its latest submission.

    Entries of a run: path, label, task, state (see STATES), nodes, reason, log, iteration, iterations, metric, score,
    restarts. InputError without squeue, FaultError if it does not answer.
    """
    submissions = list(read_submissions(experiment))
    if not submissions:
        if experiment:
            experiment_names(experiment)  # InputError for an unknown one
        where = f" of {experiment}" if experiment else ""
        raise InputError(f"nothing{where} was submitted from {results_root()}: repro submit EXPERIMENT")
    client.need_program("squeue")
    queued = client.queued_tasks()
    latest = {
        run["path"]: (folder, array["job"])
        for folder, submission in submissions
        for array in submission["arrays"]
        for run in array["runs"]
    }
    shown = []
    for folder, submission in submissions:
        arrays = []
        for array in submission["arrays"]:
            job = array["job"]
            current = [(run, task) for run, task in array_tasks(array) if latest[run["path"]] == (folder, job)]
            if not current:
                continue
            ends = client.ended_tasks(job) if any((job, task) not in queued for _, task in current) else {}
            runs = [
                run_status(folder, array, run, task, queued.get((job, task)), ends.get((job, task)))
                for run, task in current
            ]
            arrays.append({name: array[name] for name in ("job", "ranks", "nodes", "partition")} | {"runs": runs})
        if arrays:
            shown.append({name: submission[name] for name in ("experiment", "submitted_at")} | {"arrays": arrays})
    return shown


def run_status(
    folder: Path,
    array: dict[str, Any],
    run: dict[str, Any],
    number: int,
    task: client.ArrayTask | None,
    end: str | None,
) -> dict[str, Any]:
    """The status of one run, from its folder, its task in Slurm's queue, and the final state of that task.

    A task may have several runs: while it is queued, some of them may be done, and others wait for their turn.
    """
    progress = progress_of(results_root() / run["path"], run)
    log = log_of(folder, array["job"], number)
    shared = sum(other == number for _, other in array_tasks(array)) > 1
    reason = ""
    if progress["finished"] and (shared or not task):
        state = "done"
    elif task and task.state in WAITING:
        state = "requeued" if progress["started"] else "pending"
        reason = task.reason if task.reason != "None" else ""
    elif task and shared and progress["failure"]:
        state, reason = "failed", progress["failure"]
    elif task:
        state = "pending" if shared and not progress["started"] else "running"
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


def progress_of(folder: Path, run: dict[str, Any]) -> dict[str, Any]:
    """The progress of a run, from its event log and record."""
    events = read_events(folder / EVENTS_FILE)
    record = store.usable_record(folder)
    starts = [event for event in events if event["event"] == "run_start"]
    evaluations = [event for event in events if event["event"] == "evaluation"]
    end = end_in(events)
    return {
        "started": bool(starts),
        "finished": bool(events) and record is not None and record.key == run["key"],
        "failure": end["reason"] if end else None,
        "iteration": max((event.get("iteration") or 0 for event in events), default=0),
        "iterations": starts[-1].get("iterations") if starts else None,
        "score": evaluations[-1].get(run["metric"]) if evaluations else None,
        "restarts": sum(event["event"] == "resume" for event in events),
    }


def last_error(log: Path) -> str | None:
    """The last error line of a task's output."""
    try:
        errors = ERROR_LINE.findall(safe_files.read_safely(log).decode("utf-8", "replace"))
    except OSError:
        return None
    return errors[-1] if errors else None


def status_lines(shown: list[dict[str, Any]]) -> list[str]:
    """The text of a status: a heading per array, a line per run, and the number of runs in each state."""
    text: list[str] = []
    counts = dict.fromkeys(STATES, 0)
    width = max(len(run["label"]) for submission in shown for array in submission["arrays"] for run in array["runs"])
    for submission in shown:
        for array in submission["arrays"]:
            where = f"{array['ranks']} ranks on {array['nodes']} node{'s' * (array['nodes'] > 1)}"
            partition = f", partition {array['partition']}" if array["partition"] else ""
            at = submission["submitted_at"].replace("T", " ")[:16]
            text.append(f"{submission['experiment']}: job {array['job']}, {where}{partition}, submitted {at} UTC")
            for run in array["runs"]:
                counts[run["state"]] += 1
                text.append(f"  {run['state']:9} {run['label']:{width}}  {run_details(run)}".rstrip())
    text.append(", ".join(f"{number} {state}" for state, number in counts.items() if number))
    return text


def run_details(run: dict[str, Any]) -> str:
    parts: tuple[Any, ...] = (
        run["iterations"] and f"iteration {run['iteration']} of {run['iterations']}",
        run["score"] is not None and f"{run['metric']} {run['score']:.4f}",
        run["restarts"] and f"resumed {run['restarts']}x",
        run["nodes"] and f"on {run['nodes']}",
        run["reason"],
    )
    return ", ".join(filter(None, parts))
