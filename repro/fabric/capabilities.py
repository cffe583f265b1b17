"""Checks that a fabric has the capabilities that a strategy requires."""

from __future__ import annotations

from collections.abc import Set

from repro.core.errors import InputError
from repro.fabric.base import GLOO, LIBRARIES, NCCL

LAUNCHERS = {"mpi": "mpirun", "torch": "torchrun"}  # fabric -> a launcher that starts it on any machine


def check_capabilities(strategy: str, requires: Set[str], fabric: str, backend: str = "auto") -> None:
    """Before ranks start: InputError if the fabric, or its configured backend, lacks what a strategy requires."""
    if missing := {library for library in requires & LIBRARIES.keys() if LIBRARIES[library] != fabric}:
        raise lacking_error(strategy, missing, fabric)
    backend = "gloo" if backend == "auto" else backend  # which has all that NCCL has
    if fabric == "torch" and (missing := set(requires - (NCCL if backend == "nccl" else GLOO))):
        raise lacking_error(strategy, missing, backend)


def lacking_error(strategy: str, missing: Set[str], fabric: str) -> InputError:
    """The error of a strategy that requires what a fabric (or a backend of torch) lacks, and what has it."""
    where = [LAUNCHERS[LIBRARIES[library]] for library in sorted(missing & LIBRARIES.keys())]
    hint = f"; {' and '.join(where)} has it: testbed=here testbed.launcher={where[0]}" if where else ""
    if fabric in ("gloo", "nccl"):
        hint = "; take MPI (testbed.launcher=mpirun, on Slurm testbed.fabric=mpi)"
    if fabric == "nccl":
        gloo = "" if missing - GLOO else ", or gloo (testbed.backend=gloo)"
        hint += f"{gloo}: each message of a GPU tensor is then copied through pinned host memory at both ends"
    return InputError(f"{strategy} needs {', '.join(sorted(missing))}, which fabric {fabric} lacks{hint}")
