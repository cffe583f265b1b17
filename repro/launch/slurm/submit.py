"""`repro submit`: an experiment's cells that are not done, as one job array for each number of ranks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro import launch
from repro.common.errors import InputError
from repro.experiment import config as configs
from repro.experiment import grid
from repro.experiment.cell import Cell
from repro.experiment.testbeds import testbed_of
from repro.launch import runs as expansion
from repro.launch.local import Mpirun, Torchrun
from repro.launch.slurm import client, record, script
from repro.launch.slurm import site as sites
from repro.launch.slurm.prepared import prepare
from repro.launch.srun import Srun
from repro.rank import programs
from repro.records import provenance

ANYWHERE = (Mpirun, Torchrun, Srun)  # measured cells of these launchers may as well run on a cluster
TESTBED = "slurm"


def find_cells(experiment: str, overrides: Sequence[str], scale: str) -> tuple[list[Cell], str | None]:
    """An experiment's measured cells on testbed slurm, with their keys, and a line on what was left out, if anything.

    A testbed of this machine is replaced by the cluster and keeps its overrides; simulated and shaped ones are not.
    """
    given = [word.partition("=")[2] for word in overrides if word.startswith("testbed=")]
    if any(name != TESTBED for name in given):
        raise InputError(
            f"testbed={given[-1]}: `repro submit` runs cells on testbed={TESTBED}; `repro run` on the others"
        )
    ours = [word for word in overrides if not word.startswith("testbed")]
    testbeds = configs.axes(configs.compose(experiment, grid.split(ours)[0], scale), ours)[1]
    conditions, left_out = None, []
    for name, changes in testbeds.items():
        testbed = testbed_of(configs.compose(experiment, [f"testbed={name}"], scale)["testbed"])
        if not isinstance(launch.of(testbed), ANYWHERE):
            left_out.append(name)
        elif conditions is None or name == TESTBED:
            conditions = changes
    note = f"{experiment}: left out testbed {', '.join(left_out)} (`repro run` runs those cells)" if left_out else None
    if conditions is None:
        return [], note
    keys = {word.partition("=")[0] for word in overrides}
    kept = [change for change in conditions if change.partition("=")[0] not in keys]
    others = [word for word in overrides if word not in (f"testbed={TESTBED}",)]
    cells = expansion.expand(experiment, [f"testbed={TESTBED}", *kept, *others], scale)
    expansion.identify(cells)
    return cells, note


def choose(cells: Sequence[Cell]) -> tuple[list[Cell], int, int]:
    """Those to submit, and how many are finished, and how many wait or run in Slurm already."""
    unfinished = [cell for cell in cells if not cell.finished]
    busy = busy_keys() if unfinished and shutil.which("squeue") else set()
    todo = [cell for cell in unfinished if cell.key not in busy]
    return todo, len(cells) - len(unfinished), len(unfinished) - len(todo)


def busy_keys() -> set[str]:
    """The keys of cells that wait or run in arrays of this results folder."""
    submissions = list(record.read())
    tasks = client.queued() if submissions else {}
    return {
        cell["key"]
        for _, submission in submissions
        for array in submission["arrays"]
        for number, cell in enumerate(array["cells"])
        if (array["job"], number) in tasks
    }


def groups(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells by number of ranks: each array asks for as many nodes as its cells need, and no more."""
    found: dict[int, list[Cell]] = {}
    for cell in cells:
        found.setdefault(programs.ranks(cell.config), []).append(cell)
    return [found[ranks] for ranks in sorted(found)]


def scripts(cells: Sequence[Cell], site: sites.Site, folder: Path, mlflow: bool) -> list[tuple[list[Cell], str]]:
    return [(group, script.render(group, site, folder, mlflow)) for group in groups(cells)]


def submit(cells: Sequence[Cell], site: sites.Site, mlflow: bool) -> dict[str, Any]:
    """Prepare the cells, write the scripts, hand them to sbatch, record what was submitted; returns the record.

    InputError with Slurm's own words where it refuses; arrays that it took before that stay recorded.
    """
    client.need("sbatch")
    if any(launch.of(cell.config.testbed).fabric == "mpi" for cell in cells):
        client.need_mpi(site.mpi)
    experiment = cells[0].experiment
    folder = record.new_folder(experiment)
    made = scripts(cells, site, folder, mlflow)
    folder.mkdir(parents=True)
    shutil.copyfile(sites.path(), folder / "site.yaml")
    submission: dict[str, Any] = {
        "experiment": experiment,
        "submitted_at": provenance.utc_now(),
        "command": provenance.command(["repro", *sys.argv[1:]]),
        "arrays": [],
    }
    for group, text in made:
        ranks = programs.ranks(group[0].config)
        path = folder / (f"job-{ranks}ranks.sbatch" if len(made) > 1 else "job.sbatch")
        path.write_text(text, encoding="utf-8")
        new = [cell for cell in group if prepare(cell)]
        try:
            job = client.submit(path)
        except InputError:
            for cell in new:
                shutil.rmtree(cell.folder)
            if not submission["arrays"]:
                shutil.rmtree(folder)
            raise
        submission["arrays"].append(
            {
                "job": job,
                "script": path.name,
                "ranks": ranks,
                "nodes": site.nodes(ranks),
                "partition": site.partition,
                "cells": [
                    {
                        "path": str(cell.folder.relative_to(folder.parents[1])),
                        "label": cell.label,
                        "key": cell.key,
                        "metric": cell.config.metric,
                    }
                    for cell in group
                ],
            }
        )
        record.write(folder, submission)
    return submission | {"folder": str(folder)}
