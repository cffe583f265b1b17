"""Whether a fabric has the capabilities that a strategy needs, and what to say where it does not."""

from __future__ import annotations

from collections.abc import Set

from repro.core.errors import InputError
from repro.fabric.base import LIBRARIES, NCCL

LAUNCHERS = {"mpi": "mpirun", "torch": "torchrun"}  # fabric -> a launcher that starts it on any machine


def check(strategy: str, requires: Set[str], fabric: str, backend: str = "auto") -> None:
    """InputError where a strategy needs another fabric than the one of that name, or another backend of it than the one
    that is asked for; before ranks start."""
    if elsewhere := {library for library in requires & LIBRARIES.keys() if LIBRARIES[library] != fabric}:
        raise lacking(strategy, elsewhere, fabric)
    if fabric == "torch" and backend == "nccl" and (missing := requires - NCCL):
        raise lacking(strategy, missing, backend)


def lacking(strategy: str, missing: Set[str], fabric: str) -> InputError:
    """The error of a strategy that needs what a fabric (or a backend of torch's) lacks, with where it is."""
    where = [LAUNCHERS[LIBRARIES[library]] for library in sorted(missing & LIBRARIES.keys())]
    hint = f"; {' and '.join(where)} has it: testbed=here testbed.launcher={where[0]}" if where else ""
    if fabric == "nccl":
        gloo = "" if "test" in missing else ", or gloo (testbed.backend=gloo)"
        hint = (
            f"; take MPI (testbed.launcher=mpirun, on Slurm testbed.fabric=mpi){gloo}: what is on a GPU then goes "
            "through pinned host memory, a copy out and a copy in for each message"
        )
    return InputError(f"{strategy} needs {', '.join(sorted(missing))}, which fabric {fabric} lacks{hint}")
