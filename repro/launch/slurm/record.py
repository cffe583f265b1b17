"""What was submitted: a folder each in `results/slurm/`, with script, site options, output and `submission.json`.

    {"experiment", "submitted_at", "command", "arrays": [{"job", "script", "ranks", "nodes", "partition", "messages",
     "runs": [{"path" (below the results folder), "label", "key", "metric", "task"}, ...]}, ...]}

task: of the array, which carries out the runs that have its number in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from repro.core import safe_files, strict_json
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import results_root


def root() -> Path:
    return results_root() / "slurm"


def new_folder(experiment: str) -> Path:
    """A name for a submission, in order of time; not created."""
    stem = f"{datetime.now():%Y%m%d-%H%M%S}-{experiment.replace('/', '-')}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    return next(folder for name in names if not (folder := root() / name).exists())


def log_of(folder: Path, job: str, task: int) -> Path:
    """The output of one task of an array, by the script's `--output`."""
    return folder / f"{job}_{task}.log"


def write(folder: Path, submission: dict[str, Any]) -> None:
    write_atomically(folder / "submission.json", json.dumps(submission, indent=1) + "\n")


def tasks(array: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
    """The runs of an array, and which of its tasks carries out each: the n-th the n-th where the record has none."""
    return [(run, run.get("task", number)) for number, run in enumerate(array["runs"])]


def read(experiment: str | None = None) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every submission (of an experiment, or of a paper), oldest first."""
    for path in sorted(root().glob("*/submission.json")):
        try:
            found = strict_json.parse(safe_files.read(path))
            name = found["experiment"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}: not a readable submission ({error}); remove its folder to forget it") from None
        if experiment in (None, name, name.split("/")[0]):
            yield path.parent, found
