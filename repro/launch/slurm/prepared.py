"""Run folders prepared on the login node, and loaded by the job that executes the runs."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path

from repro import launch
from repro.core import safe_files
from repro.core.errors import InputError
from repro.core.paths import CONFIG_FILE
from repro.experiment import files, needs
from repro.experiment.identify import identify_runs
from repro.experiment.launched import read_config
from repro.experiment.run import Run
from repro.launch.slurm import site
from repro.records import provenance


def node_name() -> str:
    """The name of this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def limit_cores() -> None:
    """Restrict this process to as many cores as its job requested, if Slurm has not done so."""
    cores = os.sched_getaffinity(0)
    requested = int(os.environ.get("SLURM_CPUS_PER_TASK") or len(cores))
    if requested < len(cores):
        os.sched_setaffinity(0, random.sample(sorted(cores), requested))  # other jobs may run on the node


def prepare_folder(run: Run) -> bool:
    """Write the configuration for the job, which adds the hardware; whether the folder is new."""
    new = not run.folder.exists()
    launcher = launch.launcher_for(run.config.testbed)
    place = launcher.hardware_class() or site.load_site().hardware_class()
    run.hardware = {"class": place, "network": run.config.testbed.network}
    recorded = {"key": run.key, "hardware": run.hardware, "provenance": provenance.provenance()}
    safe_files.make_folder(run.folder)
    files.write_resolved(run.folder / CONFIG_FILE, run.config.model_copy(update=recorded).plain())
    return new


def load_prepared(launched: Sequence[str]) -> list[Run]:
    """The runs of prepared folders, with this node's hardware.

    launched: FOLDER=DIGEST of each, the digest as it was at submission (`repro.experiment.launched`). InputError if a
    folder was not prepared, or if configuration, code, data or torch have changed since: the results would have the
    wrong key.
    """
    if wrong := [each for each in launched if "=" not in each]:
        raise InputError(f"{wrong[0]}: must be FOLDER=DIGEST, as in the script of `repro submit`")
    folders = {Path(folder): digest for folder, _, digest in (each.rpartition("=") for each in launched)}
    runs = []
    try:
        for folder, digest in folders.items():
            if not (path := folder / CONFIG_FILE).is_file():
                raise InputError(f"no {path}: not a run that `repro submit` prepared, or not visible here")
            config = read_config(folder, digest)
            runs.append(Run(f"{config.paper}/{config.experiment}", config.variant, config, config.seed))
            needs.check_config(config)
        identify_runs(runs, site.load_site().hardware_class())
    except InputError as error:
        raise type(error)(f"node {node_name()}: {error}") from None
    for folder, run in zip(folders, runs, strict=True):
        if run.key != run.config.key:
            raise InputError(
                f"node {node_name()}: {run.label}: code, data, torch or site are not what they were when it was "
                f"submitted (key {run.key[:8]}, was {run.config.key[:8]}); submit it again"
            )
        if run.folder.resolve() != folder.resolve():
            raise InputError(
                f"node {node_name()}: {folder} is not in the results folder, where {run.folder} is this run's"
            )
    return runs
