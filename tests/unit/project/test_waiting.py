"""What the tests stand on: waiting that does not depend on the machine's speed, and Ctrl-C for what they start."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import wait_until


def test_waiting_ends_with_what_was_waited_for():
    turns = iter([0, [], "found"])
    assert wait_until(lambda: next(turns), "a word") == "found"


def test_waiting_ends_where_it_cannot_come_any_more():
    turns = iter([False, True])
    with pytest.raises(AssertionError, match="a word: it did not come before the end"):
        wait_until(lambda: False, "a word", over=lambda: next(turns))


@pytest.mark.parametrize(("name", "said"), [("INT", "KeyboardInterrupt"), ("HUP", "")])
def test_tests_in_the_background_of_a_shell_can_end_commands_by_signals(name, said):
    """Such a shell has SIGINT ignored, nohup SIGHUP, and all children inherit that: commands would never end."""
    sign = signal.Signals[f"SIG{name}"]
    code = f"import tests.conftest, os; os.kill(os.getpid(), {int(sign)}); print('ignored')"
    shell = ["sh", "-c", f"trap '' {name}; exec \"$@\"", "sh", sys.executable, "-c", code]
    done = subprocess.run(shell, cwd=Path(__file__).resolve().parents[3], capture_output=True, text=True)
    assert not done.stdout and said in done.stderr and done.returncode == -sign, done
