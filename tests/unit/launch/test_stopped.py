"""A simulation that is stopped, as by SIGSTOP, has no peers that would give up waiting for it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures.process import BrokenProcessPool

import pytest

from repro.cli.main import main
from repro.core.processes import StopWatch
from repro.launch import supervise, sweeps
from repro.launch.supervise import FaultError, Ranks
from tests.support.waiting import LIMIT_S, wait_until

STOPS = (
    "import os, signal, time; from repro.rank import ends; ends.report_start(); os.kill(os.getpid(), signal.SIGSTOP)"
)


def test_a_stopped_simulation_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "STOPPED_LOOKS", 3)
    ranks = Ranks([sys.executable, "-c", STOPS], dict(os.environ), tmp_path / "ranks.log", count=1, alone=True)
    try:
        with pytest.raises(FaultError, match="SIGSTOP"):
            ranks.follow(lambda _: None, stall_s=60)
    finally:
        ranks.stop()


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def test_a_stopped_worker_of_a_sweep_is_ended(monkeypatch):
    monkeypatch.setattr(sweeps, "STOPPED_LOOKS", 3)
    worker, over = multiprocessing.get_context("fork").Process(target=_stop), threading.Event()
    worker.start()
    threading.Thread(target=sweeps._end_stopped, args=(over,), daemon=True).start()
    try:
        worker.join(LIMIT_S)
        assert worker.exitcode == -signal.SIGKILL
    finally:
        over.set()
        worker.kill()


def test_a_lost_worker_of_a_sweep_is_one_line(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise BrokenProcessPool("one was terminated abruptly")

    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setattr(sweeps, "_collect", broken)
    own = ["strategy=dsync", "testbed=paper/pipesgd-alexnet", "epochs=0.001", "--no-report"]
    assert main(["run", "pipesgd/fig4-mnist", *own, "--draws", "2"]) == 1
    error = capsys.readouterr().err
    assert "a process of the draws was lost" in error and "Traceback" not in error


def test_a_process_that_goes_on_is_not_counted():
    child = multiprocessing.get_context("fork").Process(target=signal.pause)
    child.start()
    watch = StopWatch(2)
    try:
        for sign, counts in ((signal.SIGSTOP, [[], [child.pid]]), (signal.SIGCONT, [[]]), (signal.SIGSTOP, [[]])):
            os.kill(child.pid, sign)
            state = "T" if sign == signal.SIGSTOP else "S"
            wait_until(lambda state=state: _in_state(child.pid, state), f"state {state}")
            assert [watch.stopped([child.pid]) for _ in counts] == counts
    finally:
        child.kill()
        child.join()


def _in_state(pid: int, state: str) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == state
