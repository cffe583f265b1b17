"""The training clock: runs only while training, splits each step into phases, and keeps who did what when."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from repro.core.not_none import not_none
from repro.core.phases import PHASES
from repro.fabric.base import Fabric
from repro.training.cuda_timer import DeviceTimes, Mark

MAIN_LINE = "main"
COMPUTATION = frozenset({"forward", "backward", "compress", "update", "data"})
COMMUNICATION, COMPRESSION = "communicate", "compress"
Span = tuple[float, float]  # start, end


class Interval(NamedTuple):
    """One stretch of one line (the rank's main line or a task) on the fabric's clock, in seconds.

    minibatch: whose it is, where a strategy says it (`Clock.about`)
    """

    line: str
    name: str
    start: float
    end: float
    minibatch: int | None = None


def sides(intervals: Iterable[Interval]) -> tuple[list[Span], list[Span]]:
    """Communication of other lines, and the main line's computation, which may hide it."""
    communication, computation = [], []
    for one in intervals:
        if one.line == MAIN_LINE and one.name in COMPUTATION:
            computation.append((one.start, one.end))
        elif one.line != MAIN_LINE and one.name == COMMUNICATION:
            communication.append((one.start, one.end))
    return communication, computation


class Phase:
    """`Clock.phase` as a context manager: a generator's would cost a short step several times as much."""

    __slots__ = "clock", "line", "name", "start"

    def __init__(self, clock: Clock, name: str):
        self.clock, self.name = clock, name

    def __enter__(self) -> None:
        self.line, self.start = self.clock._begin_phase(self.name)

    def __exit__(self, *raised: object) -> None:
        self.clock._end_phase(self.name, self.line, self.start)


class Clock:
    """One per rank. `train_s` is the fabric's time (real or virtual) less everything inside `paused`."""

    def __init__(
        self,
        fabric: Fabric,
        synchronise: Callable[[], None] = lambda: None,
        synchronise_phases: bool = False,
        device_times: DeviceTimes | None = None,
    ):
        """`synchronise`: waits for the device; called whenever the clock starts or stops and, with
        `synchronise_phases` (GPU breakdown runs), at both ends of every phase, which spoils the overlap.
        `device_times`: of a GPU without that; a phase is then as long as the stream of its line was in it, which `take`
        reads: what the host has only asked for takes no time, and what waits for its turn on the GPU hides nothing."""
        self._fabric = fabric
        self._device_times = device_times
        # phases on the device: line, name, start, end, whose
        self._unread: list[tuple[str, str, Mark, Mark, int | None]] = []
        self._minibatch: int | None = None  # that the main line is at work on
        self._synchronise = synchronise
        self._synchronise_phase = synchronise if synchronise_phases else (lambda: None)
        self._before = 0.0  # train_s of earlier stretches
        self._since: float | None = None  # when the present stretch began
        self._phases: dict[str, float] = defaultdict(float)
        self._intervals: list[Interval] = []
        self._recent: list[Interval] = []
        self.compress_s: float | None = None  # in phase "compress", on any line; None: it never was in it
        self._in_phase: str | None = None
        self._phase_since: float | Mark = 0.0
        self.wall: dict[str, float] = defaultdict(float)  # real seconds by what the clock was doing
        self._wall_since = time.perf_counter()

    # --- running and pausing
    def start(self) -> None:
        self._synchronise()
        self._wall_since = time.perf_counter()
        self._since = self._fabric.now()
        if self._device_times:
            self._device_times.anchor(self._since)

    def _stop(self) -> None:
        self._synchronise()
        self._before = self.train_s()
        self._since = None
        self._book("training")

    def _book(self, what: str) -> None:
        now = time.perf_counter()
        self.wall[what] += now - self._wall_since
        self._wall_since = now

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Training time stands still inside; `activity` says what the wall time goes to."""
        self._stop()
        try:
            yield
        finally:
            self._book("logging")
            self.start()

    @contextmanager
    def activity(self, what: str) -> Iterator[None]:
        """Inside `paused`: wall time in here counts as `what` ("evaluation", "checkpoint"); the rest is logging."""
        self._book("logging")
        yield
        self._book(what)

    def train_s(self) -> float:
        """Seconds of training so far, on this rank."""
        return self._before + (self._fabric.now() - self._since if self._since is not None else 0.0)

    def point(self) -> float | Mark:
        """Now, of `train_s`, for `between`: on a GPU where the main line's stream is, which is known later."""
        return self._device_times.mark() if self._device_times else self.train_s()

    def between(self, points: Sequence[tuple[float | Mark, float | Mark]]) -> list[float]:
        """Seconds of training from each first point to its second; on a GPU it waits for them."""
        times: Sequence[Any] = [point for pair in points for point in pair]
        if self._device_times:
            times = self._device_times.seconds(list(times))
        return [end - start for start, end in zip(times[::2], times[1::2])]

    # --- phases
    @contextmanager
    def about(self, minibatch: int) -> Iterator[None]:
        """Intervals of the main line inside are of that minibatch."""
        self._minibatch = minibatch
        try:
            yield
        finally:
            self._minibatch = None

    def phase(self, name: str) -> Phase:
        """A named stretch of the calling line. On the main line phases do not nest, so that they sum to the step."""
        return Phase(self, name)

    def _begin_phase(self, name: str) -> tuple[str, float | Mark]:
        """(line, when)"""
        line = self._fabric.current_task()
        if line == MAIN_LINE:
            if name not in PHASES or self._in_phase:
                raise ValueError(f"phase '{name}' inside '{self._in_phase}'; phases: {', '.join(PHASES)}, not nested")
            self._in_phase = name
        self._synchronise_phase()
        return line, self._phase_start(line)

    def _end_phase(self, name: str, line: str, start: float | Mark) -> None:
        self._synchronise_phase()
        if line == MAIN_LINE:
            start, self._in_phase = self._phase_since, None  # later than `start` after an interruption
        self._phase_end(line, name, start)

    @contextmanager
    def interruption(self, name: str) -> Iterator[None]:
        """As `phase`, but on the main line it may come inside a phase, which ends for as long and then goes on.

        For work in the middle of a backward pass: phases still do not overlap and sum to the step.
        """
        outer = self._in_phase if self._fabric.current_task() == MAIN_LINE else None
        if outer is None:
            with self.phase(name):
                yield
            return
        self._synchronise_phase()
        self._phase_end(MAIN_LINE, outer, self._phase_since)
        self._in_phase = None
        try:
            with self.phase(name):
                yield
        finally:
            self._in_phase = outer
            self._phase_start(MAIN_LINE)

    def note(self, name: str, start: float, end: float) -> None:
        """A stretch of the calling line that is known only when it is over; not of the main line."""
        self._add(self._fabric.current_task(), name, start, end)

    def _phase_start(self, line: str) -> float | Mark:
        """A point in time; on a GPU one of the line's stream, that will only be known later."""
        on_device = self._device_times and self._since is not None
        now = not_none(self._device_times).mark() if on_device else self._fabric.now()
        if line == MAIN_LINE:
            self._phase_since = now
        return now

    def _phase_end(self, line: str, name: str, start: float | Mark) -> None:
        minibatch = self._minibatch if line == MAIN_LINE else None
        if isinstance(start, Mark):
            self._unread.append((line, name, start, not_none(self._device_times).mark(), minibatch))
        else:
            self._add(line, name, start, self._fabric.now(), minibatch)

    def _add(self, line: str, name: str, start: float, end: float, minibatch: int | None = None) -> None:
        self._intervals.append(Interval(line, name, start, end, minibatch))
        if name == COMPRESSION:
            self.compress_s = (self.compress_s or 0.0) + end - start
        if line == MAIN_LINE:
            self._phases[name] += end - start

    def _read(self, device_times: DeviceTimes) -> None:
        """Ask the device when it was where; waits for it."""
        unread, self._unread = self._unread, []
        times: dict[int, float] = {}
        for line in dict.fromkeys(line for line, *_ in unread):
            marks = [mark for of, _, start, end, _ in unread if of == line for mark in (start, end)]
            marks.sort(key=lambda mark: mark.number)  # phases of a task may nest
            times.update(zip((mark.number for mark in marks), device_times.seconds(marks)))
        for line, name, start, end, minibatch in unread:
            self._add(line, name, times[start.number], times[end.number], minibatch)

    def take(self) -> dict[str, float]:
        """Phase seconds since the last call, and "overlapped": communication of other lines during computation."""
        if self._device_times:
            self._read(self._device_times)
        intervals, self._intervals = self._intervals, []
        self._recent = intervals
        phases = {name: self._phases.pop(name, 0.0) for name in PHASES}
        return phases | {"overlapped": overlap(*sides(intervals))}

    def middle(self, seconds: float) -> list[Interval]:
        """The intervals that touch the middle `seconds` of what the last `take` returned, for timelines.

        The middle, because the pipeline fills at its start and the rank waits for what is under way at its end.
        """
        if not self._recent:
            return []
        first, last = min(i.start for i in self._recent), max(i.end for i in self._recent)
        low, high = (first + last - seconds) / 2, (first + last + seconds) / 2
        return [interval for interval in self._recent if interval.end > low and interval.start < high]

    # --- resume
    def state_dict(self) -> dict:
        return {"train_s": self._before, "wall": dict(self.wall)}

    def load_state_dict(self, state: dict) -> None:
        self._before = state["train_s"]
        self.wall = defaultdict(float, state["wall"])


# --- lengths of unions and intersections of intervals
def union(spans: Iterable[Span]) -> list[Span]:
    """The same points as disjoint spans in order; empty spans are dropped."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def overlap(first: Iterable[Span], second: Iterable[Span]) -> float:
    """Seconds that lie in some span of both; each side's own overlaps count once."""
    a, b = union(first), union(second)
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total
