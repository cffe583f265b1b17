"""Run folders prepared on the login node, and loaded by the job that executes the runs."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path

from repro import launch
from repro.core import own_code, safe_files
from repro.core.errors import InputError
from repro.core.fields import checked
from repro.experiment import files, validate
from repro.experiment.identify import identify
from repro.experiment.run import Run
from repro.experiment.schema import RunConfig
from repro.launch.slurm import site
from repro.records import provenance


def node() -> str:
    """The name of this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def limit_cores() -> None:
    """Restrict this process to as many cores as its job requested, if Slurm has not done so."""
    cores = os.sched_getaffinity(0)
    requested = int(os.environ.get("SLURM_CPUS_PER_TASK") or len(cores))
    if requested < len(cores):
        os.sched_setaffinity(0, random.sample(sorted(cores), requested))  # other jobs may run on the node


def prepare(run: Run) -> bool:
    """Write the configuration for the job, which adds the hardware; whether the folder is new."""
    new = not run.folder.exists()
    launcher = launch.of(run.config.testbed)
    place = launcher.hardware_class() or site.load().hardware_class()
    run.hardware = {"class": place, "network": run.config.testbed.network}
    recorded = {"key": run.key, "hardware": run.hardware, "provenance": provenance.provenance()}
    safe_files.make_folder(run.folder)
    files.write_yaml(run.folder / "config.yaml", run.config.model_copy(update=recorded).plain())
    return new


def load(folders: Sequence[Path]) -> list[Run]:
    """The runs of prepared folders, with this node's hardware.

    InputError if a folder was not prepared, or if code, data or torch have changed since the submission: the results
    would have the wrong key.
    """
    runs = []
    try:
        for folder in folders:
            path = folder / "config.yaml"
            if not path.is_file():
                raise InputError(f"no {path}: not a run that `repro submit` prepared, or not visible here")
            configured = files.read_yaml(path)
            own_code.admit_configured(configured)
            config = checked(RunConfig, configured)
            runs.append(Run(f"{config.paper}/{config.experiment}", config.variant, config, config.seed))
            validate.check(config)
        identify(runs, site.load().hardware_class())
    except InputError as error:
        raise type(error)(f"node {node()}: {error}") from None
    for folder, run in zip(folders, runs, strict=True):
        if run.key != run.config.key:
            raise InputError(
                f"node {node()}: {run.label}: code, data, torch or site are not what they were when it was submitted "
                f"(key {run.key[:8]}, was {run.config.key[:8]}); submit it again"
            )
        if run.folder.resolve() != folder.resolve():
            raise InputError(f"node {node()}: {folder} is not in the results folder, where {run.folder} is this run's")
    return runs
