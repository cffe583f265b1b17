"""A cell prepared on the login node, and the same cell found again by the job that runs it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from repro import launch
from repro.common.errors import InputError
from repro.experiment import files, form
from repro.experiment.cell import Cell
from repro.launch import runs as expansion
from repro.records import provenance

RECORDED = ("key", "hardware", "provenance")  # beside the configuration, in a cell's config.yaml


def node() -> str:
    """The name of this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def prepare(cell: Cell) -> bool:
    """Write the configuration that the job will read; whether its folder is new. Hardware is filled in by the job."""
    new = not cell.folder.exists()
    launcher = launch.of(cell.config["testbed"])
    cell.hardware = {"class": launcher.hardware_class(), "network": cell.config["testbed"]["network"]}
    recorded = {"key": cell.key, "hardware": cell.hardware, "provenance": provenance.provenance()}
    cell.folder.mkdir(parents=True, exist_ok=True)
    files.write_yaml(cell.folder / "config.yaml", cell.config | recorded)
    return new


def load(folder: Path) -> Cell:
    """The cell of a prepared folder, its hardware this node's.

    InputError where it was not prepared, or where code, data or torch are not what they were at submission: its numbers
    would stand under the wrong key.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        raise InputError(f"node {node()}: no {path}: not a cell that `repro submit` prepared, or not visible here")
    config = files.read_yaml(path)
    key = config.get("key")
    for name in RECORDED:
        config.pop(name, None)
    try:
        form.check(config)
        cell = Cell(f"{config['paper']}/{config['figure']}", config["setting"], config, config["seed"])
        expansion.check(cell.config)
        expansion.identify([cell])
    except InputError as error:
        raise type(error)(f"node {node()}: {error}") from None
    if cell.key != key:
        raise InputError(
            f"node {node()}: {cell.label}: code, data, torch or site are not what they were when it was submitted "
            f"(key {cell.key[:8]}, was {str(key)[:8]}); submit it again"
        )
    if cell.folder.resolve() != folder.resolve():
        raise InputError(f"node {node()}: {folder} is not in the results folder, where {cell.folder} is this cell's")
    return cell
