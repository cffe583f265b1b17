"""Imported by every Python with this folder on PYTHONPATH: plants the bug $PLANTED in the process that forks ranks."""

import os
import sys

if os.environ.get("PLANTED") and "repro.launch.pool" in sys.orig_argv:
    import planted_bugs

    planted_bugs.BUGS[os.environ["PLANTED"]].plant()
