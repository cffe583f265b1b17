"""`python -m tests.support.forked_command PYTHON MODULE ARGUMENTS...`: `python -m MODULE ARGUMENTS...`, forked from the
pool of tests, with ranks that PYTHON starts. PYTHON is that of `tests.support.ranks.pool()`. With --fresh-ranks its
ranks are new processes nevertheless.
"""

import os
import runpy
import sys

from repro.launch.pool import Pools
from tests.support.ranks import forks_from

if __name__ == "__main__":
    _, python, module, *arguments = sys.argv
    Pools.python = forks_from(python)
    sys.path.insert(0, os.getcwd())
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
