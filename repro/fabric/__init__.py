"""Communication between ranks: the interface (`base`), its implementations (`FABRICS`) and collectives."""

from __future__ import annotations

import importlib
from types import ModuleType

# by name, so that a run imports, and its key covers, the code of its own fabric only
FABRICS = {
    "mpi": "repro.fabric.real.mpi",
    "torch": "repro.fabric.real.torch_start",
    "emulated": "repro.fabric.real.emulated",
    "virtual": "repro.fabric.virtual.fabric",
}


def load_fabric(name: str) -> ModuleType:
    """The module of a fabric: the virtual one has `run`, the others have `start`, which a started rank calls."""
    return importlib.import_module(FABRICS[name])
