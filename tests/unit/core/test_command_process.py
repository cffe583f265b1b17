"""The end of a command that does not end by itself, and of what it started."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from repro.core import command_guard, command_process
from repro.core.worker_processes import worker_processes
from tests.support.waiting import LIMIT_S, wait_until

COMMAND = """
    import os, signal, subprocess, sys, time
    from repro.core import command_process

    def compute(*pids):
        print(*pids, flush=True)
        sum(range(10**15))  # no Python code runs meanwhile, in which a signal could have an effect

    def go_on(*pids):
        try:
            print(*pids, flush=True)
            time.sleep(1000)
        finally:
            while True:
                time.sleep(1)

    command_process.start_guard()
    words = [sys.executable, "-c", "import time; time.sleep(1000)"]
    subprocess.Popen(words, start_new_session=True)
    outside = subprocess.Popen(words, start_new_session=True, env=command_process.outside_environment())
    if not (forked := os.fork()):
        time.sleep(1000)
    with command_process.signals_interrupt({signal.SIGHUP: 7}):
        globals()[sys.argv[1]](command_process.temporary_folder(), forked, outside.pid)
"""


def runs(pid: str) -> bool:
    """Whether a process runs and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def computed_s(pid: int) -> float:
    """The seconds that a process has computed outside of the kernel."""
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("does", "sign", "status"),
    [
        ("compute", signal.SIGTERM, -signal.SIGKILL),
        ("go_on", signal.SIGTERM, 143),
        ("go_on", signal.SIGHUP, 7),
        ("go_on", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(does, sign, status):
    words = [sys.executable, "-c", textwrap.dedent(COMMAND), does]
    outer = os.environ | {command_guard.VARIABLE: "/outer"}  # of a command that starts this one
    command = subprocess.Popen(words, env=outer, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    folder, forked, outside = command.stdout.readline().split()
    try:
        # Popen returns when exec closes its pipe, just before /proc shows the new environments of what was started
        wait_until(lambda: command_guard.processes_of(folder), "the process that the command started is seen")
        wait_until(lambda: len(command_guard.processes_of("/outer")) == 2, "the process outside is outside")
        assert command_guard.processes_of(folder) and os.path.isdir(folder) and runs(forked)
        assert set(command_guard.processes_of("/outer")) == {command.pid, int(forked)}  # the guard ends by itself
        if does == "compute":  # it says so before it begins, when a signal still has an effect
            before = computed_s(command.pid)
            wait_until(lambda: computed_s(command.pid) > before + 0.2, "the computation is under way")
        command.send_signal(sign)
        assert command.wait(LIMIT_S) == status
        wait_until(lambda: not (command_guard.processes_of(folder) or os.path.exists(folder) or runs(forked)), "an end")
        assert runs(outside)
    finally:
        command.kill()
        os.kill(int(outside), signal.SIGKILL)
    line = f"repro: terminated by {sign.name}; the same command resumes\n"
    assert command.communicate()[1] == (line if status > 0 else "")


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_whose_exception_python_drops_comes_again(sign):
    class Forks:  # as a fork does, whose hooks may raise nothing
        def __del__(self):
            signal.raise_signal(sign)

    with pytest.raises(KeyboardInterrupt), command_process.signals_interrupt({}):
        Forks()
        time.sleep(LIMIT_S)


def test_work_that_is_given_up_is_not_waited_for():
    spawn = multiprocessing.get_context("spawn")
    with pytest.raises(KeyboardInterrupt), worker_processes(1, spawn, os.getpid) as pool:
        assert pool.submit(os.getpid).result(LIMIT_S)
        pool.submit(time.sleep, 10 * LIMIT_S)
        raise KeyboardInterrupt
