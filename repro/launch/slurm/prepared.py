"""A cell prepared on the login node, and the same cell found again by the job that runs it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from repro import launch
from repro.common.errors import InputError
from repro.common.fields import checked
from repro.experiment import files
from repro.experiment.cell import Cell
from repro.experiment.schema import RunConfig
from repro.launch import runs as expansion
from repro.records import provenance


def node() -> str:
    """The name of this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def prepare(cell: Cell) -> bool:
    """Write the configuration that the job will read; whether its folder is new. Hardware is filled in by the job."""
    new = not cell.folder.exists()
    launcher = launch.of(cell.config.testbed)
    cell.hardware = {"class": launcher.hardware_class(), "network": cell.config.testbed.network}
    recorded = {"key": cell.key, "hardware": cell.hardware, "provenance": provenance.provenance()}
    cell.folder.mkdir(parents=True, exist_ok=True)
    files.write_yaml(cell.folder / "config.yaml", cell.config.model_copy(update=recorded).plain())
    return new


def load(folder: Path) -> Cell:
    """The cell of a prepared folder, its hardware this node's.

    InputError where it was not prepared, or where code, data or torch are not what they were at submission: its numbers
    would stand under the wrong key.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        raise InputError(f"node {node()}: no {path}: not a cell that `repro submit` prepared, or not visible here")
    try:
        config = checked(RunConfig, files.read_yaml(path))
        cell = Cell(f"{config.paper}/{config.figure}", config.setting, config, config.seed)
        expansion.check(cell.config)
        expansion.identify([cell])
    except InputError as error:
        raise type(error)(f"node {node()}: {error}") from None
    if cell.key != config.key:
        raise InputError(
            f"node {node()}: {cell.label}: code, data, torch or site are not what they were when it was submitted "
            f"(key {cell.key[:8]}, was {config.key[:8]}); submit it again"
        )
    if cell.folder.resolve() != folder.resolve():
        raise InputError(f"node {node()}: {folder} is not in the results folder, where {cell.folder} is this cell's")
    return cell
