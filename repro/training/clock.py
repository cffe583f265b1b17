"""The training clock: measures training time without pauses, the phases of each step, and intervals for timelines."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from repro.core.not_none import not_none
from repro.core.phases import COMMUNICATION, COMPUTATION, MAIN_LINE, OVERLAPPED, PHASES
from repro.fabric.base import Fabric
from repro.training.cuda_timer import DeviceTimes, Mark

COMPRESSION = "compress"
COMPUTING = frozenset({*COMPUTATION, COMPRESSION})
Span = tuple[float, float]  # start, end


class Interval(NamedTuple):
    """An interval of one line (the rank's main line, or a task), in seconds on the fabric's clock.

    minibatch: the minibatch that it belongs to, if a strategy has set it (`Clock.about`)
    """

    line: str
    name: str
    start: float
    end: float
    minibatch: int | None = None


def split_sides(intervals: Iterable[Interval]) -> tuple[list[Span], list[Span]]:
    """The communication of tasks, and the main line's computation, which may hide it."""
    communication, computation = [], []
    for interval in intervals:
        if interval.line == MAIN_LINE and interval.name in COMPUTING:
            computation.append((interval.start, interval.end))
        elif interval.line != MAIN_LINE and interval.name == COMMUNICATION:
            communication.append((interval.start, interval.end))
    return communication, computation


class Phase:
    """The context manager of `Clock.phase`, several times faster than one made from a generator."""

    __slots__ = "clock", "line", "name", "start"

    def __init__(self, clock: Clock, name: str):
        self.clock, self.name = clock, name

    def __enter__(self) -> None:
        self.line, self.start = self.clock._begin_phase(self.name)

    def __exit__(self, *raised: object) -> None:
        self.clock._end_phase(self.name, self.line, self.start)


class Clock:
    """One per rank. `train_s` is the fabric's time (real or virtual) without the time inside `paused`."""

    def __init__(
        self,
        fabric: Fabric,
        synchronise: Callable[[], None] = lambda: None,
        synchronise_phases: bool = False,
        device_times: DeviceTimes | None = None,
    ):
        """synchronise: waits for the device. It is called whenever the clock starts or stops and, with
        `synchronise_phases` (GPU breakdown runs), at both ends of every phase, which prevents overlap.

        device_times: measures phases on a GPU without synchronising them. A phase then lasts as long as its line's
        stream executes it, not as long as the host needs to queue it; `take` reads the times.
        """
        self._fabric = fabric
        self._device_times = device_times
        # phases on the device: line, name, start, end, minibatch
        self._unread: list[tuple[str, str, Mark, Mark, int | None]] = []
        self._minibatch: int | None = None  # the main line's current one
        self._synchronise = synchronise
        self._synchronise_phase = synchronise if synchronise_phases else None
        self._before = 0.0  # train_s before the last start
        self._since: float | None = None  # the last start; None: paused
        self._intervals: list[tuple[str, str, float, float, int | None]] = []  # as `Interval`, made in `take`
        self._recent: list[Interval] = []
        self.compress_s: float | None = None  # seconds in phase "compress" on any line; None: no such phase so far
        self._in_phase: str | None = None
        self._phase_since: float | Mark = 0.0
        self.wall: dict[str, float] = defaultdict(float)  # activity -> real seconds
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
        """Pause the training clock inside; `activity` names the activity for the wall time."""
        self._stop()
        try:
            yield
        finally:
            self._book("logging")
            self.start()

    @contextmanager
    def activity(self, what: str) -> Iterator[None]:
        """Inside `paused`: count wall time as `what` ("evaluation", "checkpoint"); the rest is logging."""
        self._book("logging")
        yield
        self._book(what)

    def train_s(self) -> float:
        """Seconds of training so far, on this rank."""
        return self._before + (self._fabric.now() - self._since if self._since is not None else 0.0)

    def point(self) -> float | Mark:
        """The current `train_s`, for `between`; on a GPU a mark in the main line's stream, to be read later."""
        return self._device_times.mark() if self._device_times else self.train_s()

    def between(self, points: Sequence[tuple[float | Mark, float | Mark]]) -> list[float]:
        """Seconds of training between the two points of each pair; synchronises with a GPU."""
        times: Sequence[Any] = [point for pair in points for point in pair]
        if self._device_times:
            times = self._device_times.seconds(list(times))
        return [end - start for start, end in zip(times[::2], times[1::2])]

    # --- phases
    @contextmanager
    def about(self, minibatch: int) -> Iterator[None]:
        """Assign the main line's intervals inside to a minibatch."""
        self._minibatch = minibatch
        try:
            yield
        finally:
            self._minibatch = None

    def phase(self, name: str) -> Phase:
        """Time a phase of the calling line. Phases of the main line do not nest, so that they sum to the step."""
        return Phase(self, name)

    def _begin_phase(self, name: str) -> tuple[str, float | Mark]:
        """(line, start)"""
        line = self._fabric.current_task()
        if line == MAIN_LINE:
            if name not in PHASES or self._in_phase:
                raise ValueError(f"phase '{name}' inside '{self._in_phase}'; phases: {', '.join(PHASES)}, not nested")
            self._in_phase = name
        if self._synchronise_phase:
            self._synchronise_phase()
        return line, self._phase_start(line)

    def _end_phase(self, name: str, line: str, start: float | Mark) -> None:
        if self._synchronise_phase:
            self._synchronise_phase()
        if line == MAIN_LINE:
            start, self._in_phase = self._phase_since, None  # after an interruption this is later than `start`
        self._phase_end(line, name, start)

    @contextmanager
    def interruption(self, name: str) -> Iterator[None]:
        """Like `phase`, but on the main line it may interrupt another phase, for work inside a backward pass. Phases
        still do not overlap, and sum to the step."""
        outer = self._in_phase if self._fabric.current_task() == MAIN_LINE else None
        if outer is None:
            with self.phase(name):
                yield
            return
        if self._synchronise_phase:
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
        """Add an interval of the calling task after it has ended; not for the main line."""
        self._add(self._fabric.current_task(), name, start, end)

    def _phase_start(self, line: str) -> float | Mark:
        """The current time; on a GPU a mark in the line's stream, whose time is known later."""
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
        self._intervals.append((line, name, start, end, minibatch))
        if name == COMPRESSION:
            self.compress_s = (self.compress_s or 0.0) + end - start

    def _read(self, device_times: DeviceTimes) -> None:
        """Read the times of the marks, which synchronises with the device."""
        unread, self._unread = self._unread, []
        times: dict[int, float] = {}
        for line in dict.fromkeys(line for line, *_ in unread):
            marks = [mark for mark_line, _, start, end, _ in unread if mark_line == line for mark in (start, end)]
            marks.sort(key=lambda mark: mark.number)  # phases of a task may nest
            times.update(zip((mark.number for mark in marks), device_times.seconds(marks)))
        for line, name, start, end, minibatch in unread:
            self._add(line, name, times[start.number], times[end.number], minibatch)

    def take(self) -> dict[str, float]:
        """Phase seconds since the last call, and "overlapped": seconds of tasks' communication during computation."""
        if self._device_times:
            self._read(self._device_times)
        taken, self._intervals = self._intervals, []
        self._recent = [*map(Interval._make, taken)]
        phases = dict.fromkeys(PHASES, 0.0)
        for interval in self._recent:
            if interval.line == MAIN_LINE:
                phases[interval.name] += interval.end - interval.start
        return phases | {OVERLAPPED: overlap_seconds(*split_sides(self._recent))}

    def middle(self, seconds: float) -> list[Interval]:
        """The intervals that touch the middle `seconds` of the time up to the last `take`, for timelines.

        The middle is steady: a pipeline fills at the start and drains at the end.
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


def union_spans(spans: Iterable[Span]) -> list[Span]:
    """The union of spans, as disjoint spans in order, without empty ones."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def overlap_seconds(first: Iterable[Span], second: Iterable[Span]) -> float:
    """The length of the intersection of two unions of spans, in seconds."""
    a, b = union_spans(first), union_spans(second)
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total
