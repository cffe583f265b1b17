"""Imports all modules that ranks and the planning of runs need, for processes that are forked from this one.

No import starts a thread, MPI or CUDA, so a forked process behaves like a new one after the same imports.
"""

import gc

import torch._dynamo  # every optimizer imports it
import torch.distributed.run  # noqa: F401

from repro import fabric
from repro.core.registry import HOMES, home_module
from repro.experiment import requested  # noqa: F401
from repro.rank import preflight, session  # noqa: F401

for kind in HOMES:
    home_module(kind)
for name in fabric.FABRICS:
    fabric.load_fabric(name)
gc.freeze()  # memory pages of imported modules stay shared
