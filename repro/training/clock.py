"""The training clock: runs only while training, splits each step into phases, and keeps who did what when."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from repro.common.phases import PHASES
from repro.fabric.base import Fabric
from repro.training.cuda_timer import DeviceTimes, Mark
from repro.training.intervals import overlap

MAIN_LINE = "main"
COMPUTATION = frozenset({"forward", "backward", "compress", "update", "data"})
COMMUNICATION = "communicate"


class Interval(NamedTuple):
    """One stretch of one line (the rank's main line or a task) on the fabric's clock, in seconds.

    minibatch: whose it is, where a strategy says it (`Clock.about`)
    """

    line: str
    name: str
    start: float
    end: float
    minibatch: int | None = None


class Phase:
    """`Clock.phase` as a context manager: a generator's would cost a short step several times as much."""

    __slots__ = "begun", "clock", "name"

    def __init__(self, clock: Clock, name: str):
        self.clock, self.name = clock, name

    def __enter__(self) -> None:
        self.begun = self.clock._begin_phase(self.name)

    def __exit__(self, *raised: object) -> None:
        self.clock._end_phase(self.name, *self.begun)


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
        `device_times`: of a GPU without that; the main line's phases are then as long as the GPU was in them, which
        `take` reads. Other lines' work is on the host, and is timed there."""
        self._fabric = fabric
        self._device_times = device_times
        # phases of the main line on the device: name, start, end, whose
        self._unread: list[tuple[str, Mark, Mark, int | None]] = []
        self._minibatch: int | None = None  # that the main line is at work on
        self._synchronise = synchronise
        self._synchronise_phase = synchronise if synchronise_phases else (lambda: None)
        self._before = 0.0  # train_s of earlier stretches
        self._since: float | None = None  # when the present stretch began
        self._phases: dict[str, float] = defaultdict(float)
        self._intervals: list[Interval] = []
        self._recent: list[Interval] = []
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

    def _now(self, line: str) -> float | Mark:
        """A point in time; on the main line of a GPU one that will only be known later."""
        if self._device_times and line == MAIN_LINE and self._since is not None:
            return self._device_times.mark()
        return self._fabric.now()

    def _phase_start(self, line: str) -> float | Mark:
        now = self._now(line)
        if line == MAIN_LINE:
            self._phase_since = now
        return now

    def _phase_end(self, line: str, name: str, start: float | Mark) -> None:
        end = self._now(line)
        if isinstance(end, Mark) or isinstance(start, Mark):
            assert isinstance(end, Mark) and isinstance(start, Mark)  # the clock starts and stops between phases
            self._unread.append((name, start, end, self._minibatch))
        else:
            self._add(line, name, start, end, self._minibatch if line == MAIN_LINE else None)

    def _add(self, line: str, name: str, start: float, end: float, minibatch: int | None = None) -> None:
        self._intervals.append(Interval(line, name, start, end, minibatch))
        if line == MAIN_LINE:
            self._phases[name] += end - start

    def _read(self, device_times: DeviceTimes) -> None:
        """Ask the device when it was where; waits for it."""
        unread, self._unread = self._unread, []
        times = iter(device_times.seconds([mark for _, start, end, _ in unread for mark in (start, end)]))
        for name, _, _, minibatch in unread:
            self._add(MAIN_LINE, name, next(times), next(times), minibatch)

    def take(self) -> dict[str, float]:
        """Phase seconds since the last call, and "overlapped": communication of other lines during computation."""
        if self._device_times:
            self._read(self._device_times)
        intervals, self._intervals = self._intervals, []
        self._recent = intervals
        computing = [(i.start, i.end) for i in intervals if i.line == MAIN_LINE and i.name in COMPUTATION]
        hidden = [(i.start, i.end) for i in intervals if i.line != MAIN_LINE and i.name == COMMUNICATION]
        phases = {name: self._phases.pop(name, 0.0) for name in PHASES}
        return phases | {"overlapped": overlap(computing, hidden)}

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
