"""Launchers: how the ranks of a run are started, by the testbed's `launcher`."""

from __future__ import annotations

from repro.core.errors import InputError, unknown
from repro.experiment.testbeds import Testbed
from repro.launch.base import Allocation, Launcher
from repro.launch.local import Mpirun, Torchrun, Virtual
from repro.launch.shaped import EmulatedMpirun, ShapedMpirun, ShapedTorchrun
from repro.launch.srun import Srun

LAUNCHERS: dict[str, type[Launcher]] = {"mpirun": Mpirun, "torchrun": Torchrun, "srun": Srun, "virtual": Virtual}
SHAPED: dict[str, type[Launcher]] = {"mpirun": ShapedMpirun, "torchrun": ShapedTorchrun}  # testbeds with a link rate
EMULATED: dict[str, type[Launcher]] = {"mpirun": EmulatedMpirun}
EXAMPLE = {"measured": "here", "emulated": "emulated/pipesgd-alexnet", "simulated": "virtual"}  # a testbed of each kind


def of(testbed: Testbed) -> Launcher:
    """The launcher of a testbed; InputError for one that is unknown or gives another kind of number."""
    name = testbed.launcher
    known = EMULATED if testbed.kind == "emulated" else LAUNCHERS
    if testbed.kind == "measured" and testbed.rate_gbit is not None:
        known = SHAPED
    if name not in known:
        raise unknown("launcher", name, known)
    launcher = known[name](testbed)
    if launcher.kind != testbed.kind:
        valid = [name for name, each in LAUNCHERS.items() if each.kind == testbed.kind]
        raise InputError(
            f"testbed.launcher={name}: testbed {testbed.name} is {testbed.kind}; valid: {', '.join(valid)} "
            f"({name} goes with {launcher.kind} testbeds, for instance testbed={EXAMPLE[launcher.kind]})"
        )
    return launcher


__all__ = ["LAUNCHERS", "Allocation", "Launcher", "of"]
