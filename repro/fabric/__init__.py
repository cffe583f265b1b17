"""How ranks talk: the interface (`base`), its implementations (`FABRICS`), and collectives."""

from __future__ import annotations

import importlib
from types import ModuleType

# by name, so that a run depends on the code of its own fabric alone
FABRICS = {
    "mpi": "repro.fabric.real.mpi",
    "torch": "repro.fabric.real.torch_start",
    "emulated": "repro.fabric.real.emulated",
    "virtual": "repro.fabric.virtual.fabric",
}


def load(name: str) -> ModuleType:
    """The module of a fabric: `run` of the virtual one, else `start` in a started rank."""
    return importlib.import_module(FABRICS[name])
