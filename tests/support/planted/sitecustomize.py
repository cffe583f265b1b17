"""On PYTHONPATH of a command: its ranks go on from a checkpoint with the bug that $PLANTED names, if any.

Python imports this as it starts; only the process that ranks are forked from does more.
"""

import os
import sys

if os.environ.get("PLANTED") and "repro.launch.pool" in sys.orig_argv:
    import planted_bugs

    planted_bugs.BUGS[os.environ["PLANTED"]].plant()
