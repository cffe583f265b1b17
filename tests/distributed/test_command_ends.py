"""A command that is ended at any moment of its first seconds ends, and leaves neither processes nor temporary files.

$REPRO_ENDS: the number of moments of each command; 30 are ten of each signal.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.ranks
LIMIT_S = 60.0  # tells a hang from an end in 3 s
MOMENTS = int(os.environ.get("REPRO_ENDS", "1"))
SIGNS = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
MOMENTS_S = 10.0  # its moments lie in so many seconds: by then each has started all kinds of its processes
COMMANDS = [
    "run pipesgd/fig4-alexnet --draws 16",
    "report",
    "verify",
    "run pipesgd/fig4-mnist testbed=here workers=2 dataset.standin=always seeds=9 --force --no-report",
]


def processes_with(text: str) -> list[Path]:
    """The processes with this text in their command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(text.encode() in (process / name).read_bytes() for name in ("cmdline", "environ")):
                found.append(process)
    return found


@pytest.fixture
def temporary():
    folder = Path(tempfile.mkdtemp(prefix="ends-", dir="/tmp"))  # short, as sockets need it
    yield folder
    for process in processes_with(str(folder)):
        os.kill(int(process.name), signal.SIGKILL)
    shutil.rmtree(folder)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", range(MOMENTS))
@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_ended_at_any_moment_leaves_nothing(words, number, temporary, tmp_path):
    sign = SIGNS[(number + COMMANDS.index(words)) % len(SIGNS)]
    moment_s = random.Random(f"{words}/{number // len(SIGNS)}/{sign}").uniform(0.0, MOMENTS_S)
    own = {"TMPDIR": str(temporary), "REPRO_RESULTS": str(tmp_path / "results"), "XDG_CACHE_HOME": str(tmp_path)}
    own |= {"REPRO_REPORTS": str(tmp_path / "pages"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    words = [sys.executable, "-m", "repro", *words.split()]
    with open(tmp_path / "err", "w") as err:
        command = subprocess.Popen(words, env=os.environ | own, stdout=subprocess.DEVNULL, stderr=err)
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.wait(moment_s)
    begun = any(temporary.iterdir())
    command.send_signal(sign)
    signalled = time.monotonic()
    status = command.wait(LIMIT_S)
    ended_s = time.monotonic() - signalled
    late = signalled + LIMIT_S
    wait_until(lambda: not processes_with(str(temporary)), "processes end", lambda: time.monotonic() > late)
    wait_until(lambda: not any(temporary.iterdir()), "temporary files go", lambda: time.monotonic() > late)
    print(f"{sign.name} after {moment_s:.1f} s: ended after {ended_s:.2f} s, all {time.monotonic() - signalled:.2f} s")
    if begun:  # else Python was still importing
        assert status in (0, -sign, 128 + sign, -signal.SIGKILL)  # the last: by its guard, if the machine is busy
        messages = (tmp_path / "err").read_text()
        assert "Traceback" not in messages, messages
