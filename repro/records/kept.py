"""Unfinished runs that are kept from one machine to the next: `results/unfinished/`, committed, one archive each.

`repro publish --from` puts them there, `repro run` continues them anywhere, and `repro publish` removes one when the
finished run is published. Every clone carries them, and a bundle for a machine without a network too, so they are few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from repro.core import safe_files
from repro.core.errors import InputError
from repro.core.paths import results_root, unfinished_root
from repro.core.terminal import warn
from repro.records import archive, unfinished
from repro.records.archive import CutOff
from repro.records.store import run_folders
from repro.records.unfinished import Unfinished
from repro.records.variants import KEPT, WORKSPACE

MOST_TOTAL = 40 * 2**20  # bytes of all kept runs
RESUME_KEY = re.compile(r"[0-9a-f]{64}")


def kept_path(run: Unfinished) -> Path:
    """The file of a run: of all runs that may continue each other the same; InputError if its names are not plain."""
    paper, experiment, _ = archive.folder_of(run, run.name).split("/")
    if not RESUME_KEY.fullmatch(run.resume_key):
        raise InputError(f"{run.name}: resume_key {run.resume_key[:40]!r}: must be a SHA-256 in hexadecimal")
    return path_of(paper, experiment, run.resume_key)


def path_of(paper: str, experiment: str, resume_key: str) -> Path:
    return unfinished_root() / paper / experiment / f"{resume_key[:16]}.zip"


def find_kept(paper: str, experiment: str, resume_key: str) -> CutOff | None:
    """The kept run with a resume key; None if there is none, and with a warning if its file is invalid."""
    path = path_of(paper, experiment, resume_key)
    kept = _usable(path) if resume_key and path.is_file() else None
    return kept if kept and kept.run.resume_key == resume_key else None


def unfinished_runs(paper: str | None = None) -> list[tuple[str, Unfinished]]:
    """The unfinished runs of a paper, or of all, each with its origin: WORKSPACE, or KEPT in `results/unfinished`."""
    began = run_folders(results_root(), paper or "*", having=[unfinished.FILE])
    mine = [(WORKSPACE, run) for folder in began if (run := unfinished.read(folder))]
    return mine + [(KEPT, run) for run in runs(paper or "*")]


def runs(paper: str = "*") -> list[Unfinished]:
    """The kept runs of a paper, or of all, in the order of their files."""
    return [kept.run for path in kept_files(paper) if (kept := _usable(path))]


def kept_files(paper: str = "*") -> list[Path]:
    return sorted(unfinished_root().glob(f"{paper}/*/*.zip"))


def keep(new: Sequence[CutOff]) -> list[str]:
    """Keep unfinished runs, each unless the kept one is as far; returns a line for each. InputError, and nothing is
    changed, if all together would be larger than MOST_TOTAL."""
    lines, further = [], []
    for each in new:
        path, run = kept_path(each.run), each.run
        old = _usable(path) if path.is_file() else None
        if old and old.run.resume_key == run.resume_key and old.run.iteration >= run.iteration:
            lines.append(f"{run.name} at iteration {run.iteration}: {path} has iteration {old.run.iteration}")
            continue
        lines.append(f"{run.name} at iteration {run.iteration} of {run.iterations} in {path}")
        further.append((path, each))
    replaced = {path for path, _ in further}
    size = sum(path.stat().st_size for path in kept_files() if path not in replaced)
    size += sum(len(each.events) + len(each.checkpoint) for _, each in further)
    if size > MOST_TOTAL:
        raise InputError(
            f"{unfinished_root()} would have {size / 2**20:.0f} MiB, of {MOST_TOTAL >> 20}: finish and publish runs in "
            "it, or remove some"
        )
    for path, each in further:
        safe_files.make_folder(path.parent)
        archive.pack(path, [], [each])
    return lines


def remove(resume_keys: Iterable[str]) -> list[Path]:
    """Remove the kept runs with these resume keys; returns their files."""
    finished = {key[:16] for key in resume_keys if key}
    gone = [path for path in kept_files() if path.stem in finished]
    for path in gone:
        path.unlink()
        for folder in (path.parent, path.parent.parent):
            if not any(folder.iterdir()):
                folder.rmdir()
    return gone


def _usable(path: Path) -> CutOff | None:
    try:
        content = archive.read(path)
        (only,) = content.unfinished
        return only
    except InputError as error:
        warn(f"{error}; left out")
    except ValueError:
        warn(f"{path}: does not hold one unfinished run; left out")
    return None
