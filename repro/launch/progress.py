"""The progress display of runs: a bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from repro.core.terminal import one_line
from repro.launch.forecast import Planned, Remaining

LINE_EVERY_S = 10.0
DRAW_EVERY_S = 0.2


@dataclass
class Running:
    """The progress of one run."""

    iterations: int
    iteration: int = 0
    score: float | None = None
    metric: str = "accuracy"


class Progress:
    """One bar over all runs of a command, with the estimated time left (`repro.launch.forecast`).

    Of runs side by side the one that reported last is shown. Thread-safe.
    """

    def __init__(self, runs: Mapping[str, Planned], stream: TextIO | None = None, cores: int = 1):
        """runs: the unfinished ones, by name; cores: shared by simulated runs."""
        self.total = len(runs)
        self.stream = stream or sys.stderr
        self._remaining = Remaining(runs, cores)
        self._finished = 0
        self._running: dict[str, Running] = {}
        self._name = ""  # of the run that reported last
        self._next = 0.0  # the earliest time of the next update
        self._lock = threading.RLock()
        self._bar: Any = None
        terminal = self.stream.isatty()
        if terminal or in_notebook(self.stream):
            from tqdm import tqdm  # takes 0.1 s, and a log file does not need it

            layout = "{desc} |{bar}| {postfix} [{elapsed} so far]"
            # tqdm draws nothing on a terminal that reports a width of 0; a notebook reports none
            dynamic = terminal and os.get_terminal_size(self.stream.fileno()).columns
            width: dict[str, Any] = {"dynamic_ncols": True} if dynamic else {"ncols": 100}
            total = max(self.total, 1)
            self._bar = tqdm(total=total, file=self.stream, bar_format=layout, leave=False, **width)

    def starting(self, name: str) -> None:
        """A run is about to start its ranks; its time counts from here."""
        self.begin(name, 0)

    def begin(self, name: str, iterations: int, metric: str = "accuracy", resumed: int = 0) -> None:
        """Rank 0 of a run begins to work; metric: the display name of its scores; resumed: iterations done before."""
        with self._lock:
            self._remaining.begin(name)
            self._running[name] = Running(iterations, resumed, metric=metric)
            self._name = name
            self._show()

    def update(self, name: str, iteration: int, score: float | None = None) -> None:
        """A run has completed `iteration` iterations; score: a new score, if there is one."""
        with self._lock:
            run = self._running[name]
            run.iteration = min(iteration, run.iterations)
            if score is not None:
                run.score = score
            self._name = name
            self._show()

    def done(self, name: str, line: str, failed: bool = False) -> None:
        """A run has finished, or failed: print a permanent line, unless it is empty."""
        with self._lock:
            self._running.pop(name, None)
            (self._remaining.failed if failed else self._remaining.done)(name)
            self._finished += 1
            if line:
                self.note(line)

    def postponed(self, name: str, line: str) -> None:
        """A run has failed and is tried again later: print a permanent line."""
        with self._lock:
            self._running.pop(name, None)
            self._remaining.postponed(name)
            self.note(line)

    def note(self, line: str) -> None:
        """Print a permanent line."""
        line = one_line(line)  # names and reasons may have control characters
        with self._lock:
            if self._bar is not None:
                self._bar.write(line, file=self.stream)
                self._next = 0.0
                self._show()
            else:
                print(line, file=self.stream, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _show(self) -> None:
        run = self._running.get(self._name)
        now = time.monotonic()
        if run is None or now < self._next:
            return
        shares = {name: each.iteration / each.iterations for name, each in self._running.items() if each.iterations}
        number = min(self._finished + len(self._running), self.total)
        state = f"iteration {run.iteration}/{run.iterations}" if run.iterations else "under way"
        if run.score is not None:
            state += f", {run.metric} {run.score:.4f}"
        if (left := self._remaining.left(shares)) is not None:
            state += f", {'about' if left.whole else 'at least'} {format_duration(left.seconds)} left"
        if self._bar is not None:
            self._next = now + DRAW_EVERY_S
            self._bar.set_description_str(one_line(f"{number}/{self.total} {self._name}"), refresh=False)
            self._bar.postfix = state  # set_postfix_str would put a comma in front
            self._bar.n = min(self._finished + sum(shares.values()), self.total)  # update() would draw by its own rules
            self._bar.refresh()
            return
        self._next = now + LINE_EVERY_S
        print(one_line(f"{number}/{self.total} {self._name}: {state}"), file=self.stream, flush=True)


def in_notebook(stream: TextIO) -> bool:
    """Whether a stream is shown by Jupyter, which moves the cursor as a terminal does."""
    return type(stream).__module__.startswith("ipykernel.")


def format_duration(seconds: float) -> str:
    """Formatted like `45 s`, `12 min` or `3 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
