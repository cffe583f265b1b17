"""The progress display: lines in a file, a bar on a terminal."""

import errno
import io
import os
import pty

import pytest

from repro.launch import progress
from repro.launch.progress import Progress, duration


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_plain_lines_come_every_few_seconds_and_tell_the_time_left(clock):
    stream = io.StringIO()
    with Progress(2, stream) as shown:
        shown.begin("D-Sync, seed 0", 100)
        for iteration in range(1, 51):
            clock.now += 0.2
            shown.update("D-Sync, seed 0", iteration, 0.9 if iteration == 20 else None)
        clock.now += 10
        shown.note("something to know")
        shown.done("D-Sync, seed 0", "D-Sync, seed 0: 0.95 in 20 s")
        shown.begin("Pipe-SGD, seed 0", 100)
    assert stream.getvalue().splitlines() == [
        "1/2 D-Sync, seed 0: iteration 0/100",
        "1/2 D-Sync, seed 0: iteration 25/100, accuracy 0.9000, about 35 s left",
        "1/2 D-Sync, seed 0: iteration 50/100, accuracy 0.9000, about 30 s left",
        "something to know",
        "D-Sync, seed 0: 0.95 in 20 s",
        "2/2 Pipe-SGD, seed 0: iteration 0/100, about 20 s left",
    ]


def test_runs_side_by_side_both_count(clock):
    stream = io.StringIO()
    with Progress(4, stream) as shown:
        shown.begin("a", 10)
        shown.begin("b", 10)
        clock.now += 10
        shown.update("a", 5)
        clock.now += 10
        shown.update("b", 10)
        shown.done("b", "b is finished")
    assert stream.getvalue().splitlines()[2:] == [
        "2/4 a: iteration 5/10, about 70 s left",
        "2/4 b: iteration 10/10, about 33 s left",
        "b is finished",
    ]


def test_no_iterations_and_no_runs_are_no_problem(clock):
    stream = io.StringIO()
    with Progress(0, stream) as shown:
        shown.begin("x", 0)
        shown.update("x", 3)
        shown.done("x", "fine")
    assert "fine" in stream.getvalue()


def everything(parent: int) -> str:
    """All that was written to the terminal whose other end is closed: one read may return a part of it."""
    parts = []
    with os.fdopen(parent, "rb", buffering=0) as stream:
        while True:
            try:
                part = stream.read(100_000)
            except OSError as problem:  # Linux says EIO at the end of a terminal
                assert problem.errno == errno.EIO
                return b"".join(parts).decode()
            if not part:
                return b"".join(parts).decode()
            parts.append(part)


def test_a_terminal_gets_a_bar_and_lines_that_stay():
    parent, child = pty.openpty()
    with os.fdopen(child, "w") as stream:
        with Progress(2, stream) as shown:
            shown.begin("D-Sync, seed 0", 10)
            shown._next = 0
            shown.update("D-Sync, seed 0", 5, 0.5)
            shown.done("D-Sync, seed 0", "D-Sync finished")
            shown.begin("Pipe-SGD", 10)
            shown.update("Pipe-SGD", 10)
    text = everything(parent)
    assert "1/2 D-Sync, seed 0 |" in text and "iteration 5/10, accuracy 0.5000" in text and "left]" in text
    assert "D-Sync finished\r\n" in text and "2/2 Pipe-SGD |" in text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (600, "10 min"), (11099, "3 h 05 min")])
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text
