"""A run prepared on the login node, and the same run found again by the job that carries it out."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from repro import launch
from repro.common import no_links
from repro.common.errors import InputError
from repro.common.fields import checked
from repro.experiment import files
from repro.experiment.run import Run
from repro.experiment.schema import RunConfig
from repro.launch import runs as expansion
from repro.records import provenance


def node() -> str:
    """The name of this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def prepare(run: Run) -> bool:
    """Write the configuration that the job will read; whether its folder is new. Hardware is filled in by the job."""
    new = not run.folder.exists()
    launcher = launch.of(run.config.testbed)
    run.hardware = {"class": launcher.hardware_class(), "network": run.config.testbed.network}
    recorded = {"key": run.key, "hardware": run.hardware, "provenance": provenance.provenance()}
    no_links.make_folder(run.folder)
    files.write_yaml(run.folder / "config.yaml", run.config.model_copy(update=recorded).plain())
    return new


def load(folder: Path) -> Run:
    """The run of a prepared folder, its hardware this node's.

    InputError where it was not prepared, or where code, data or torch are not what they were at submission: its numbers
    would stand under the wrong key.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        raise InputError(f"node {node()}: no {path}: not a run that `repro submit` prepared, or not visible here")
    try:
        config = checked(RunConfig, files.read_yaml(path))
        run = Run(f"{config.paper}/{config.figure}", config.setting, config, config.seed)
        expansion.check(run.config)
        expansion.identify([run])
    except InputError as error:
        raise type(error)(f"node {node()}: {error}") from None
    if run.key != config.key:
        raise InputError(
            f"node {node()}: {run.label}: code, data, torch or site are not what they were when it was submitted "
            f"(key {run.key[:8]}, was {config.key[:8]}); submit it again"
        )
    if run.folder.resolve() != folder.resolve():
        raise InputError(f"node {node()}: {folder} is not in the results folder, where {run.folder} is this run's")
    return run
