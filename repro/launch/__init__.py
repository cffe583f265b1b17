"""Launchers: how the ranks of a cell are started, by the testbed's `launcher`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.errors import InputError, unknown
from repro.launch.base import FABRICS, Launcher, Place
from repro.launch.local import Mpirun, Torchrun, Virtual

LAUNCHERS: dict[str, type[Launcher]] = {"mpirun": Mpirun, "torchrun": Torchrun, "virtual": Virtual}
EXAMPLE = {"measured": "here", "simulated": "virtual"}  # a testbed of each kind


def of(testbed: Mapping[str, Any]) -> Launcher:
    """The launcher of a testbed; InputError for one that is unknown or gives another kind of number."""
    name = testbed["launcher"]
    if name not in LAUNCHERS:
        raise unknown("launcher", name, LAUNCHERS)
    launcher = LAUNCHERS[name](testbed)
    if launcher.kind != testbed["kind"]:
        valid = [name for name, each in LAUNCHERS.items() if each.kind == testbed["kind"]]
        raise InputError(
            f"testbed.launcher={name}: testbed {testbed['name']} is {testbed['kind']}; valid: {', '.join(valid)} "
            f"({name} goes with {launcher.kind} testbeds, for instance testbed={EXAMPLE[launcher.kind]})"
        )
    return launcher


__all__ = ["FABRICS", "LAUNCHERS", "Launcher", "Place", "of"]
