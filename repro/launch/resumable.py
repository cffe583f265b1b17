"""Continues unfinished runs of other machines, and packs this one's for them.

A run continues a kept run (`repro.records.kept`) of the same resume key: the same configuration, seed, data, versions
of parts and user's code, and where time is measured the same hardware and torch. The project's code may have changed
since without another version; the record lists the commit of each part (`attempts`), and `--force` starts from the
beginning. In one workspace a run continues only itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from repro.core import safe_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import EVENTS_FILE, RECORD_FILE, results_root
from repro.experiment import needs
from repro.experiment.run import Run
from repro.rank.checkpoint_files import FOLDER, checkpoint_path, list_checkpoints, write_manifest
from repro.records import archive, kept, kinds, unfinished
from repro.records.archive import CutOff
from repro.records.events import read_events
from repro.records.store import run_folders
from repro.records.unfinished import Unfinished


def unfinished_run(run: Run) -> Unfinished:
    """A run whose ranks are about to start, as its folder has it until it is finished."""
    config = run.config
    entries = {
        "run": run.name,
        "key": run.key,
        "resume_key": run.resume_key,
        "kind": kinds.kind(config.testbed.kind, None, config.min_compute_s),
        "identity": config.identity,
        "hardware": run.hardware,
        "ranks": run.ranks or needs.count_ranks(config),
        "iterations": int(run.iterations or 0),
    }
    return Unfinished.of(entries)


def adopt_unfinished(run: Run, note: Callable[[str], None]) -> None:
    """Put the kept checkpoint and events of a run into its folder, if they are further than its own."""
    other = kept.find_kept(run.config.paper, run.config.experiment, run.resume_key)
    if other is None or other.run.iteration <= newest_checkpoint(run.folder):
        return
    iteration, folder = other.run.iteration, run.folder / FOLDER
    safe_files.remove_tree(folder)
    safe_files.make_folder(folder)
    write_atomically(run.folder / EVENTS_FILE, other.events)
    file, digest = checkpoint_path(folder, iteration), hashlib.sha256(other.checkpoint).hexdigest()
    write_atomically(file, other.checkpoint)
    write_manifest(file, iteration, None, len(other.checkpoint), digest)
    by = other.run.attempts[-1]
    made = f"by commit {(by.commit or 'unknown')[:8]} on {by.hardware}"
    changed = "" if by.key == run.key else "; torch or hardware have changed since (--force starts anew)"
    note(f"{run.label}: continues an unfinished run at iteration {iteration}, computed {made}{changed}")


def newest_checkpoint(folder: Path) -> int:
    """The last iteration for which a run's folder has a checkpoint, of some rank at least; 0 if it has none."""
    return max((iteration for iteration, _ in list_checkpoints(folder / FOLDER, ".json")), default=0)


def cut_off_runs(papers: Sequence[str]) -> tuple[list[CutOff], list[str]]:
    """The unfinished runs of papers in the workspace that can be packed, and a line for each other that began."""
    began = [folder for paper in papers for folder in run_folders(results_root(), paper, having=[EVENTS_FILE])]
    if not (began := [folder for folder in began if not (folder / RECORD_FILE).is_file()]):
        return [], []
    from repro.rank.checkpoints import (
        Damaged,  # imports PyTorch
        join_checkpoints,
    )

    packed, left_out = [], []
    for folder in began:
        name = "/".join(folder.parts[-2:])
        try:
            run = unfinished.read(folder)
            if run is None:
                left_out.append(f"{name}: failed")
            elif not run.clean:
                left_out.append(f"{name}: unfinished, and made by code that was not committed")
            else:
                iteration, checkpoint = join_checkpoints(folder, run.ranks, archive.MOST_CHECKPOINT)
                packed.append(archive.cut_off(run, read_events(folder / EVENTS_FILE), iteration, checkpoint))
        except (Damaged, InputError, OSError) as error:  # of a run that is going on, files come and go
            left_out.append(f"{name}: unfinished; {error}")
    return packed, left_out
