"""`repro submit`: an experiment's runs that are not done, as one job array for each number of ranks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro import launch
from repro.common import no_links
from repro.common.errors import InputError
from repro.experiment import config as configs
from repro.experiment import grid
from repro.experiment.run import Run
from repro.experiment.testbeds import testbed_of
from repro.launch import runs as expansion
from repro.launch.local import Mpirun, Torchrun
from repro.launch.slurm import client, record, script
from repro.launch.slurm import site as sites
from repro.launch.slurm.prepared import prepare
from repro.launch.srun import Srun
from repro.rank import programs
from repro.records import provenance

ANYWHERE = (Mpirun, Torchrun, Srun)  # measured runs of these launchers may as well run on a cluster
TESTBED = "slurm"


def find_runs(experiment: str, overrides: Sequence[str], scale: str) -> tuple[list[Run], str | None]:
    """An experiment's measured runs on testbed slurm, with their keys, and a line on what was left out, if anything.

    A testbed of this machine is replaced by the cluster and keeps its overrides; simulated and shaped ones are not.
    Where the experiment has no testbed of this machine, its runs are on the cluster if the user names that.
    """
    given = [word.partition("=")[2] for word in overrides if word.startswith("testbed=")]
    if any(name != TESTBED for name in given):
        raise InputError(f"testbed={given[-1]}: `repro submit` is for testbed={TESTBED}, `repro run` for the others")
    ours = [word for word in overrides if not word.startswith("testbed")]
    testbeds = configs.axes(configs.compose(experiment, grid.split(ours)[0], scale), ours)[1]
    conditions, left_out = None, []
    for name, changes in testbeds.items():
        testbed = testbed_of(configs.compose(experiment, [f"testbed={name}"], scale)["testbed"])
        if not isinstance(launch.of(testbed), ANYWHERE):
            left_out.append(name)
        elif conditions is None or name == TESTBED:
            conditions = changes
    note = f"{experiment}: left out testbed {', '.join(left_out)} (`repro run` does those)" if left_out else None
    if conditions is None and given:
        conditions, note = [], None
    if conditions is None:
        if note:
            note += f"; testbed={TESTBED} runs it on the cluster"
        return [], note
    keys = {word.partition("=")[0] for word in overrides}
    kept = [change for change in conditions if change.partition("=")[0] not in keys]
    others = [word for word in overrides if word not in (f"testbed={TESTBED}",)]
    runs = expansion.expand(experiment, [f"testbed={TESTBED}", *kept, *others], scale)
    expansion.identify(runs)
    return runs, note


def choose(runs: Sequence[Run]) -> tuple[list[Run], int, int]:
    """Those to submit, and how many are finished, and how many wait or run in Slurm already."""
    unfinished = [run for run in runs if not run.finished]
    busy = busy_keys() if unfinished and shutil.which("squeue") else set()
    todo = [run for run in unfinished if run.key not in busy]
    return todo, len(runs) - len(unfinished), len(unfinished) - len(todo)


def busy_keys() -> set[str]:
    """The keys of runs that wait or run in arrays of this results folder."""
    submissions = list(record.read())
    tasks = client.queued() if submissions else {}
    return {
        run["key"]
        for _, submission in submissions
        for array in submission["arrays"]
        for number, run in enumerate(array["cells"])
        if (array["job"], number) in tasks
    }


def groups(runs: Sequence[Run]) -> list[list[Run]]:
    """The runs by number of ranks and by what computes: an array asks for the nodes and GPUs of its runs, no more."""
    found: dict[tuple[int, bool], list[Run]] = {}
    for run in runs:
        found.setdefault((programs.ranks(run.config), run.config.wanted_device != "cpu"), []).append(run)
    return [found[needs] for needs in sorted(found)]


def scripts(runs: Sequence[Run], site: sites.Site, folder: Path, mlflow: bool) -> list[tuple[list[Run], str]]:
    return [(group, script.render(group, site, folder, mlflow)) for group in groups(runs)]


def asked(runs: Sequence[Run], site: sites.Site) -> dict[str, Any]:
    """What an array over `runs` asks for: {ranks, nodes, gpus (sbatch's word for them)}."""
    ranks = programs.ranks(runs[0].config)
    gpus = site.gpus(ranks) if runs[0].config.wanted_device != "cpu" else None
    return {"ranks": ranks, "nodes": site.nodes(ranks), "gpus": "=".join(gpus) if gpus else "none"}


def submit(runs: Sequence[Run], site: sites.Site, mlflow: bool) -> dict[str, Any]:
    """Prepare the runs, write the scripts, hand them to sbatch, record what was submitted; returns the record.

    InputError with Slurm's own words where it refuses; arrays that it took before that stay recorded.
    """
    client.need("sbatch")
    if any(launch.of(run.config.testbed).fabric == "mpi" for run in runs):
        client.need_mpi(site.mpi)
    experiment = runs[0].experiment
    folder = record.new_folder(experiment)
    made = scripts(runs, site, folder, mlflow)
    no_links.make_folder(folder, new=True)
    no_links.write(folder / "site.yaml", sites.path().read_bytes())
    submission: dict[str, Any] = {
        "experiment": experiment,
        "submitted_at": provenance.utc_now(),
        "command": provenance.command(["repro", *sys.argv[1:]]),
        "arrays": [],
    }
    for number, (group, text) in enumerate(made):
        ranks = programs.ranks(group[0].config)
        path = folder / (f"job-{number}-{ranks}ranks.sbatch" if len(made) > 1 else "job.sbatch")
        no_links.write(path, text.encode())
        new = [run for run in group if prepare(run)]
        try:
            job = client.submit(path)
        except InputError:
            for run in new:
                no_links.remove_tree(run.folder)
            if not submission["arrays"]:
                no_links.remove_tree(folder)
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
                        "path": str(run.folder.relative_to(folder.parents[1])),
                        "label": run.label,
                        "key": run.key,
                        "metric": run.config.metric,
                    }
                    for run in group
                ],
            }
        )
        record.write(folder, submission)
    return submission | {"folder": str(folder)}
