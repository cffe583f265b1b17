"""A rank that is killed on its way out, when the cell's summary is written: `python -m tests.lost_late CELL_FOLDER`."""

import os
import signal
import sys
import time
from pathlib import Path

from repro import rank
from repro.fabric.mpi import MpiFabric


def killed(fabric: MpiFabric) -> None:
    while not (Path(sys.argv[1]) / "summary.json").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


MpiFabric.close = killed
rank.guarded(lambda: rank.main(Path(sys.argv[1])))
