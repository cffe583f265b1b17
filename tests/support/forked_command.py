"""`python -m tests.support.forked_command PYTHON ARGUMENTS...`: `repro ARGUMENTS...` whose ranks PYTHON starts.

PYTHON is that of `tests.support.ranks.pool()`, which forks this command too, for tests that send it signals. With
--fresh-ranks its ranks are new processes nevertheless.
"""

import contextlib
import sys

from repro.cli import main as cli
from repro.launch.pool import Pools

if __name__ == "__main__":
    python = sys.argv.pop(1)
    own = Pools.python
    Pools.python = lambda pools, *of: own(pools, *of) if pools.fresh else contextlib.nullcontext(python)
    sys.exit(cli.main())
