"""Records of submissions: a folder each in `results/slurm/`, with script, site options, output and `submission.json`.

    {"experiment", "submitted_at", "command", "arrays": [{"job", "script", "ranks", "nodes", "partition", "messages",
     "runs": [{"path" (below the results folder), "label", "key", "metric", "task"}, ...]}, ...]}

task: the number of the array's task that executes the run; a task executes its runs in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from repro.core import safe_files, user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import results_root


def submissions_root() -> Path:
    return results_root() / "slurm"


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
