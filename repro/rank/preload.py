"""Importing this imports all that ranks and the planning of runs need, for processes that are forked from this one.

None of it starts a thread, MPI or CUDA: a forked process is as a new one is after the same imports.
"""

import gc

import torch._dynamo  # every optimizer does
import torch.distributed.run  # noqa: F401

from repro import fabric
from repro.core.registry import HOMES, home
from repro.experiment import requested  # noqa: F401
from repro.rank import preflight, session  # noqa: F401

for kind in HOMES:
    home(kind)
for name in fabric.FABRICS:
    fabric.load(name)
gc.freeze()  # pages of what is imported stay shared
