"""A rank that is killed at its end, after the run's summary is written.

`python -m tests.support.lost_late FABRIC DIGEST RUN_FOLDER`
"""

import os
import signal
import sys
import time
from pathlib import Path

from repro.fabric.real.mpi import MpiFabric
from repro.rank import main


def killed(fabric: MpiFabric) -> None:
    while not (Path(sys.argv[3]) / "summary.json").exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


MpiFabric.close = killed
main.run_guarded(lambda: main.main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
