"""Why ranks ended, of what a launcher prints."""

from __future__ import annotations

import os
import sys

import pytest

from repro.core.errors import Crashed, FaultError
from repro.launch import supervise
from repro.launch.supervise import Ranks
from repro.rank import ends

RULE = "-" * 74
NO_FOLDER = f"""{RULE}
A call to mkdir was unable to create the desired directory:

  Directory: /proc/ompi.vm.0
  Error:     No such file or directory

Please check to ensure you have adequate permissions to perform
the desired operation.
{RULE}
[vm:12139] [[17301,0],0] ORTE_ERROR_LOG: Error in file ../../../orte/util/session_dir.c at line 107
{RULE}
It looks like orte_init failed for some reason; your parallel process is
likely to abort.
{RULE}
"""
ENDED = f"""{RULE}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{RULE}
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (NO_FOLDER, "unable to create the desired directory: Directory: /proc/ompi.vm.0 Error: No such file"),
        (
            'Traceback (most recent call last):\n  File "x", line 1\nOSError: [Errno 28] No space left\n' + ENDED,
            "Errno 28",
        ),
        ("starting\nno space left on /dev/shm\n\n" + ENDED, "no space left on /dev/shm"),
        ("terminate called\n" + ENDED + "[vm:1] [[1,0],0] ORTE_ERROR_LOG: x\n====\n", "terminate called"),
        (RULE + "\na message that is cut off", "a message that is cut off"),
    ],
)
def test_what_says_why(text, words):
    assert words in supervise.find_reason(text.splitlines(keepends=True))


def test_the_error_of_ranks_that_end_without_a_reason_of_ours_shows_the_launchers(tmp_path):
    code = f"import sys; sys.stderr.write({NO_FOLDER!r}); sys.exit(1)"
    ranks = Ranks([sys.executable, "-c", code], dict(os.environ), tmp_path / "ranks.log")
    with pytest.raises(FaultError, match=r"status 1: .*/proc/ompi\.vm\.0.*; see .*ranks\.log") as caught:
        ranks.follow(lambda _: None, 60)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("process rank 1 on vm exited on\nsignal 15\nprocess rank 2 on vm exited on signal 9", ("rank 2", "SIGKILL")),
        ("  rank      : 1 (local_rank: 1)\n  exitcode  : -11 (pid: 7)\n", ("rank 1", "SIGSEGV")),
        ("srun: error: n1: task 3: Exited\nsrun: error: n2: task 5: Killed\n", ("rank 5 on node n2", "SIGKILL")),
        ("srun: error: n1: tasks 0-1: Terminated\n", None),
    ],
)  # fmt: skip
def test_who_was_lost_first(text, lost):
    assert supervise.find_killed(text) == lost


RANK = """
import os, sys
from repro.rank import ends
os.environ["RANK"] = "0"; ends.report_start(); ends.report_end("1", "rank 0 waited for rank 1")
os.environ["RANK"] = "1"; ends.report_start()
if len(sys.argv) > 1: ends.report_end("crashed", "rank 1: own.py:3: ZeroDivisionError")
sys.exit(1)
"""


@pytest.mark.parametrize(
    ("words", "kind", "reason"), [([], FaultError, "rank 0 waited"), (["crash"], Crashed, "own.py:3")]
)
def test_the_error_is_the_reason_in_the_ranks_files_the_cause_before_its_effects(tmp_path, words, kind, reason):
    command = [sys.executable, "-c", RANK, *words]
    ranks = Ranks(command, dict(os.environ), tmp_path / "ranks.log", count=2)
    try:
        with pytest.raises(kind, match=reason):
            ranks.follow(lambda _: None, 60)
        assert len(ends.rank_processes(tmp_path / ends.FOLDER)) == 2
    finally:
        ranks.stop()
    assert not (tmp_path / ends.FOLDER).exists()
