"""`repro track sync`: every run below the results folder into MLflow, complete and once."""

from __future__ import annotations

import fcntl
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from repro.answers.mlflow.mirror import Mirror
from repro.answers.mlflow.source import of_folder, of_record
from repro.answers.mlflow.store import Store, hurried, reason
from repro.core import safe_files
from repro.core.errors import FaultError, InputError, ReproError
from repro.core.paths import REFERENCE, results_root
from repro.core.warnings import warn
from repro.experiment.files import yaml_of
from repro.records import reference
from repro.records.record import Record
from repro.records.store import run_folders

FILES = ("summary.json", "events.jsonl")  # a run has one of these
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

    paper: only its runs; InputError if there are none. say: called with the progress every few seconds.

    Finished runs are read from their summary and, if present, their event log. A run without a summary gets its curve
    and the status KILLED or FAILED. A run whose files cannot be read is skipped with a warning. FaultError if MLflow
    cannot be reached or refuses something; the next call continues from there.
    """
    root = root or results_root()
    store = Store(uri, root)
    own = {folder.relative_to(root): folder for folder in run_folders(root, paper or "*", FILES)}
    published = [
        run
        for name in reference.papers(root / REFERENCE)
        if paper in (None, name)
        for run in reference.read(name, root / REFERENCE)
        if Path(name, run.name) not in own
    ]
    if paper and not (own or published):
        raise InputError(f"no runs of {paper!r} in {root}; `repro results` lists what is there")
    todo: list[tuple[str, Callable[[], Mirror | str | None]]]
    todo = [(str(folder), partial(sync_one, store, folder)) for folder in own.values()]
    todo += [(f"{REFERENCE}: {run.name}", partial(sync_published, store, run)) for run in published]
    counts = {"done": 0, "already": 0, "running": 0}
    changed: dict[str, Mirror] = {}  # one for each MLflow experiment, to update its view
    said_at = time.monotonic()
    with hurried():
        for number, (name, one) in enumerate([*todo, ("views", lambda: show(changed))]):
            if say and time.monotonic() - said_at > PROGRESS_S:
                say(f"{number} of {len(todo)} runs: {name}")
                said_at = time.monotonic()
            try:
                if isinstance(what := one(), Mirror):
                    changed[what.experiment] = what
                    counts["done"] += 1
                elif what:
                    counts[what] += 1
            except InputError as error:  # of one run, which keeps no other from being mirrored
                warn(f"{error}; left out")
            except ReproError:
                raise
            except Exception as error:
                if is_of_run(error):
                    warn(f"{name}: MLflow cannot show what it holds ({reason(error)}); left out")
                    continue
                sent = f"{counts['done']} of {len(todo)} runs were mirrored"
                raise FaultError(f"MLflow ({store.name}): {reason(error)}; {sent}, the same command goes on") from None
    return Synced(**counts)


def is_of_run(error: Exception) -> bool:
    """Whether an error is caused by the content of a run's files, which anybody may have written."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, MlflowException):
        # MLflow wraps errors of the database about values
        return error.error_code == "INVALID_PARAMETER_VALUE" or isinstance(error.__cause__, OF_VALUES)
    return isinstance(error, OF_VALUES) and not isinstance(error, OSError)  # requests raises both


def show(mirrors: Mapping[str, Mirror]) -> None:
    for mirror in mirrors.values():
        mirror.show()


def sync_published(store: Store, run: Record) -> Mirror | str:
    """Mirror a run of the reference, which has no folder: its files are written if MLflow lacks them."""
    mirror = Mirror(store)
    with tempfile.TemporaryDirectory() as folder:
        source = of_record(run, Path(folder))
        if mirror.is_complete(source):
            return "already"
        # without fsync and on one line, which MLflow's page unfolds: indenting takes as long as mirroring the run
        Path(folder, "summary.json").write_text(json.dumps(run.plain(), sort_keys=True), encoding="utf-8")
        Path(folder, "config.yaml").write_text(yaml_of(run.identity.plain()), encoding="utf-8")
        mirror.update(source)
    return mirror


def sync_one(store: Store, folder: Path) -> Mirror | str | None:
    """Mirror a run folder; returns its mirror, or the field of `Synced` that it counts for, or None without a run."""
    if _is_running(folder):
        return "running"
    if (source := of_folder(folder)) is None:
        return None
    mirror = Mirror(store)
    if mirror.is_complete(source):
        return "already"
    mirror.update(source)
    return mirror


def _is_running(folder: Path) -> bool:
    """Whether a command runs it now (`repro.launch.runner.run_folder`), which mirrors it too."""
    try:
        with safe_files.open_file(folder / "run.lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no file, or a file system without locks
        return False
    return False
