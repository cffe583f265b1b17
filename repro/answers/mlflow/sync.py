"""`repro track sync`: every run below the results folder into MLflow, complete and once."""

from __future__ import annotations

import fcntl
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from repro.answers.mlflow.send import send_run, show_experiment
from repro.answers.mlflow.source import Source, of_folder, of_record
from repro.answers.mlflow.store import Store, reason
from repro.core import locks, safe_files
from repro.core.errors import FaultError, InputError, ReproError
from repro.core.paths import EVENTS_FILE, RECORD_FILE, REFERENCE, results_root
from repro.core.terminal import warn
from repro.records import reference
from repro.records.store import run_folders

FILES = (RECORD_FILE, EVENTS_FILE)  # a run has one of these
PROGRESS_S = 2.0  # between two lines of progress
# Python's errors for values of a wrong type or range
OF_VALUES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Synced(NamedTuple):
    """The number of runs mirrored now, mirrored before, and running (and mirrored) in another command."""

    done: int
    already: int
    running: int


def sync_all(
    root: Path | None = None, uri: str | None = None, paper: str | None = None, say: Callable[[str], None] | None = None
) -> Synced:
    """Mirror all runs below `root`, and of a reference in it, that differ from those in MLflow.

    paper: only its runs; InputError if there are none. say: called with the progress, at first and every few seconds.

    Finished runs are read from their summary and, if present, their event log. A run without a summary gets its curve
    and the status KILLED or FAILED. A run whose files cannot be read is skipped with a warning. FaultError if MLflow
    cannot be reached or refuses something; the next call continues from there.
    """
    root = root or results_root()
    store = Store(uri, root)
    todo = runs_to_read(root, paper)
    if paper and not todo:
        raise InputError(f"no runs of {paper!r} in {root}; `repro results` lists what is there")
    try:
        _ = todo and store.client  # here, where its error is not that of one run
    except Exception as error:
        raise as_fault(error, store, f"0 of {len(todo)} runs were mirrored") from None
    if say:
        say(f"mirroring {len(todo)} runs to MLflow ...")
    counts: Counter[str] = Counter()
    changed: dict[str, str] = {}  # MLflow experiment -> metric, to update its view
    said_at = time.monotonic()
    for number, (name, read) in enumerate(todo):
        if say and time.monotonic() - said_at > PROGRESS_S:
            say(f"{number} of {len(todo)} runs: {name}")
            said_at = time.monotonic()
        try:
            if isinstance(source := read(), Source):
                experiment = send_run(store, source)
                counts["done" if experiment else "already"] += 1
                changed |= {experiment: source.identity.metric} if experiment else {}
            elif source:
                counts[source] += 1
        except InputError as error:  # of one run, which keeps no other from being mirrored
            warn(f"{error}; left out")
        except Exception as error:
            if not is_of_run(error):
                raise as_fault(error, store, f"{counts['done']} of {len(todo)} runs were mirrored") from None
            warn(f"{name}: MLflow cannot show what it holds ({reason(error)}); left out")
    try:
        for experiment, metric in changed.items():
            show_experiment(store, experiment, metric)
    except Exception as error:
        raise as_fault(error, store, "all runs were mirrored, but not all views") from None
    return Synced(counts["done"], counts["already"], counts["running"])


def runs_to_read(root: Path, paper: str | None) -> list[tuple[str, Callable[[], Source | str | None]]]:
    """The name of each run, and the function that reads it: a `Source`, the field of `Synced` that it counts for, or
    None without a run."""
    folders = {folder.relative_to(root): folder for folder in run_folders(root, paper or "*", FILES)}
    return [(str(folder), partial(read_folder, folder)) for folder in folders.values()] + [
        (f"{REFERENCE}: {run.name}", partial(of_record, run))
        for name in reference.papers(root / REFERENCE)
        if paper in (None, name)
        for run in reference.read(name, root / REFERENCE)
        if Path(name, run.name) not in folders
    ]


def read_folder(folder: Path) -> Source | str | None:
    return "running" if _is_running(folder) else of_folder(folder)


def is_of_run(error: Exception) -> bool:
    """Whether an error is caused by the content of a run's files, which anybody may have written."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, MlflowException):
        # MLflow wraps errors of the database about values
        return error.error_code == "INVALID_PARAMETER_VALUE" or isinstance(error.__cause__, OF_VALUES)
    return isinstance(error, OF_VALUES) and not isinstance(error, OSError)  # requests raises both


def as_fault(error: Exception, store: Store, what: str) -> ReproError:
    if refusal := store.refusal(error):
        return refusal
    return FaultError(f"MLflow ({store.name}): {reason(error)}; {what}, the same command goes on")


def _is_running(folder: Path) -> bool:
    """Whether a command runs it now (`repro.launch.runner.run_folder`), which mirrors it too."""
    try:
        with safe_files.open_file(folder / locks.RUN) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no file, or a file system without locks
        return False
    return False
