"""The progress display: lines in a file, a bar on a terminal."""

import errno
import io
import os
import pty

import pytest

from repro.launch import forecast, progress
from repro.launch.forecast import Planned
from repro.launch.progress import Progress


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (progress, forecast):
        monkeypatch.setattr(module, "time", clock)
    return clock


def unknown(*names):
    return dict.fromkeys(names, Planned())


def test_plain_lines_come_every_few_seconds_and_tell_the_time_left(clock):
    stream = io.StringIO()
    with Progress(unknown("D-Sync, seed 0", "Pipe-SGD, seed 0"), stream) as shown:
        shown.begin("D-Sync, seed 0", 100)
        for iteration in range(1, 51):
            clock.now += 0.4
            shown.update("D-Sync, seed 0", iteration, 0.9 if iteration == 20 else None)
        clock.now += 10
        shown.note("something to know")
        shown.done("D-Sync, seed 0", "D-Sync, seed 0: 0.95 in 20 s")
        clock.now += 10
        shown.begin("Pipe-SGD, seed 0", 100)
    assert stream.getvalue().splitlines() == [
        "1/2 D-Sync, seed 0: iteration 0/100",
        "1/2 D-Sync, seed 0: iteration 25/100, accuracy 0.9000, about 70 s left",
        "1/2 D-Sync, seed 0: iteration 50/100, accuracy 0.9000, about 60 s left",
        "something to know",
        "D-Sync, seed 0: 0.95 in 20 s",
        "2/2 Pipe-SGD, seed 0: iteration 0/100, about 30 s left",
    ]


def test_runs_side_by_side_both_count(clock):
    stream = io.StringIO()
    with Progress({name: Planned(None, simulated=True) for name in "abcd"}, stream, cores=2) as shown:
        shown.begin("a", 10)
        shown.begin("b", 10)
        clock.now += 10
        shown.update("a", 5)
        clock.now += 10
        shown.update("b", 10)
        shown.done("b", "b is finished")
    assert stream.getvalue().splitlines() == [
        "1/4 a: iteration 0/10",
        "2/4 a: iteration 5/10, about 30 s left",  # half of a, and b as long; then c and d beside one another
        "2/4 b: iteration 10/10, about 40 s left",  # a takes 40 s, b 20, c and d 30
        "b is finished",
    ]


def test_runs_of_unknown_duration_leave_at_least_what_is_known(clock):
    stream = io.StringIO()
    with Progress({"a": Planned(100.0), "b": Planned(10.0), "c": Planned()}, stream) as shown:
        shown.begin("a", 0)
    assert stream.getvalue().splitlines() == ["1/3 a: under way, at least 2 min left"]


def test_a_resumed_run_counts_by_its_own_speed_since_then(clock):
    stream = io.StringIO()
    with Progress(unknown("a"), stream) as shown:
        shown.starting("a")
        clock.now += 10
        shown.begin("a", 1000, resumed=900)
        clock.now += 21
        shown.update("a", 910)
    assert stream.getvalue().splitlines()[-1] == "1/1 a: iteration 910/1000, about 3 min left"


def test_what_is_expected_counts_from_the_start_and_is_corrected_by_what_ended(clock):
    stream = io.StringIO()
    planned = {"a": Planned(100.0), "b": Planned(100.0), "c": Planned(20.0, simulated=True), "d": Planned(40.0, True)}
    with Progress(planned, stream, cores=2) as shown:
        shown.starting("a")
        clock.now += 20
        shown.begin("a", 0)
        clock.now += 35
        shown.done("a", "a took half of what was expected")
        shown.starting("b")
        clock.now += 100
        shown.begin("b", 0)
    assert stream.getvalue().splitlines() == [
        "1/4 a: under way, about 4 min left",  # 100 + 100, and 40 of the longer simulation
        "1/4 a: under way, about 4 min left",
        "a took half of what was expected",
        "2/4 b: under way, about 2 min left",  # (55 + 10) / (100 + 10) of 100; of simulations nothing is known yet
        "2/4 b: under way, about 40 s left",
    ]


def test_a_run_that_failed_tells_nothing_of_the_others(clock):
    stream = io.StringIO()
    with Progress({"a": Planned(100.0), "b": Planned(100.0)}, stream) as shown:
        shown.begin("a", 100)
        clock.now += 3
        shown.done("a", "a diverged", failed=True)
        clock.now += 10
        shown.begin("b", 100)
    assert stream.getvalue().splitlines()[-1] == "2/2 b: iteration 0/100, about 2 min left"


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
        with Progress(unknown("D-Sync, seed 0", "Pipe-SGD"), stream) as shown:
            shown.begin("D-Sync, seed 0", 10)
            shown._next = 0
            shown.update("D-Sync, seed 0", 5, 0.5)
            shown.done("D-Sync, seed 0", "D-Sync finished")
            shown.begin("Pipe-SGD", 10)
            shown.update("Pipe-SGD", 10)
    text = everything(parent)
    assert "1/2 D-Sync, seed 0 |" in text and "iteration 5/10, accuracy 0.5000" in text and "so far]" in text
    assert "D-Sync finished\r\n" in text and "2/2 Pipe-SGD |" in text


def test_control_characters_of_names_and_reasons_are_not_sent_to_the_terminal():
    stream = io.StringIO()
    name = "x\x1b]0;title\x07, seed 0"
    with Progress(unknown(name), stream) as shown:
        shown.begin(name, 10)
        shown.note("lost\x1b[2J")
        shown.done(name, f"{name}: done\r")
    assert not any(ord(each) < 32 and each != "\n" for each in stream.getvalue())
