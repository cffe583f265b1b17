"""Storage of runs: `results/<paper>/<experiment>/<run>/` with `summary.json`, `events.jsonl`, `config.yaml`.

`summary.json` is the record of a finished run (`repro.records.record`); unfinished runs have none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from repro.core import safe_files, user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import RECORD_FILE, results_root
from repro.core.terminal import warn
from repro.records.record import Record


def run_dir(paper: str, experiment: str, run: str, root: Path | None = None) -> Path:
    """The folder of a run (not created); InputError for a name that is not plain."""
    names = {"paper": paper, "experiment": experiment, "run": run}
    return (root or results_root()).joinpath(*(safe_files.check_plain(what, name) for what, name in names.items()))


def write(folder: Path, record: Record) -> None:
    """Write the record of a finished run."""
    text = json.dumps(record.plain(), indent=1, sort_keys=True, allow_nan=False)
    write_atomically(folder / RECORD_FILE, text + "\n")


def read(folder: Path) -> Record | None:
    """The record of a run, None if it is unfinished; InputError for an invalid file."""
    path = folder / RECORD_FILE
    try:
        return Record.of(user_files.parse_json(safe_files.read_safely(path)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable summary ({error}); remove the file to repeat the run") from None


def usable_record(folder: Path) -> Record | None:
    """Like `read`, but with a warning and None for an invalid file."""
    try:
        return read(folder)
    except InputError as error:
        warn(f"{error}; left out, as if the run were not finished")
        return None


def run_folders(root: Path, paper: str = "*", having: Sequence[str] = (RECORD_FILE,)) -> list[Path]:
    """The folders of runs in a results folder that have one of the files `having`, sorted."""
    return sorted({path.parent for name in having for path in root.glob(f"{paper}/*/*/{name}")})
