"""Launchers: how a cell's ranks are started on this machine."""

from __future__ import annotations

from typing import Any

from repro.errors import unknown
from repro.launch.local import mpirun_command, torchrun_command, virtual_command

LAUNCHERS = {"mpirun": mpirun_command, "torchrun": torchrun_command, "virtual": virtual_command}


def command(config: dict[str, Any], ranks: int, program: list[str]) -> list[str]:
    """The command line that starts `ranks` ranks of `program` (arguments to python); InputError if it cannot be had."""
    launcher = config["testbed"]["launcher"]
    if launcher not in LAUNCHERS:
        raise unknown("launcher", launcher, LAUNCHERS)
    return LAUNCHERS[launcher](ranks, program)
