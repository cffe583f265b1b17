"""Launchers start the ranks of a run; the testbed's `launcher` option selects one."""

from __future__ import annotations

from collections.abc import Sequence

from repro.core.errors import InputError, unknown_name
from repro.experiment.testbeds import KINDS, Testbed
from repro.launch.base import Allocation, Launcher
from repro.launch.local import Mpirun, Torchrun, Virtual
from repro.launch.shaped import EmulatedMpirun, ShapedMpirun, ShapedTorchrun
from repro.launch.srun import Srun

LAUNCHERS: Sequence[type[Launcher]]
LAUNCHERS = (Mpirun, Torchrun, Srun, Virtual, ShapedMpirun, ShapedTorchrun, EmulatedMpirun)


def launcher_for(testbed: Testbed) -> Launcher:
    """The launcher of a testbed; InputError if its name is unknown or belongs to testbeds of another kind."""
    name, kind = testbed.launcher, testbed.kind
    valid = {each.name: each for each in LAUNCHERS if (each.kind, each.limited) == (kind, testbed.limited)}
    if name in valid:
        return valid[name](testbed)
    if elsewhere := [each.kind for each in LAUNCHERS if each.name == name and each.kind != kind]:
        raise InputError(
            f"testbed.launcher={name}: testbed {testbed.name} is {kind}; valid: {', '.join(valid)} "
            f"({name} goes with {elsewhere[0]} testbeds, for instance testbed={KINDS[elsewhere[0]].example})"
        )
    raise unknown_name("launcher", name, valid)


__all__ = ["LAUNCHERS", "Allocation", "Launcher", "launcher_for"]
