"""Sweeps of simulated runs over draws of their assumed inputs, in parallel on all cores; each draw is saved at once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from repro.core import locks, safe_files
from repro.core.errors import FaultError, InputError
from repro.core.not_none import not_none
from repro.core.processes import StopWatch, safe_start
from repro.core.worker_processes import usable_cores, worker_processes
from repro.experiment.run import Run
from repro.launch.progress import format_duration
from repro.launch.supervise import LOOK_EVERY_S, STOPPED_LOOKS
from repro.records import reference, sweep
from repro.records.record import Record
from repro.records.sweep import CONFIGURED, Draw, Sweep

PROGRESS_EVERY_S = 5.0


@dataclass
class ActiveSweep:
    """A sweep that draws are being added to; waiting: unsaved draws, because an earlier one is missing."""

    run: Run
    saved: Sweep | None
    waiting: dict[int, Draw] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begun = self.saved is not None
        self.next = len(self.saved.draws) if self.saved else 0

    @property
    def missing(self) -> list[int]:
        """The numbers of the draws to make."""
        return [*([] if self.begun else [CONFIGURED]), *range(self.next, self.run.config.draws)]

    def begin(self, configured: Record) -> None:
        """Save the first line: the record of the run as configured."""
        run = self.run
        header = {"run": run.name, "key": run.key, "identity": run.config.identity.plain(), "hardware": run.hardware}
        header["provenance"] = run.made_by() | {"finished_at": configured.provenance["finished_at"]}
        record = Record.of(configured.plain() | header)
        sweep.append(run.folder, [sweep.first_line(run.key, record)])
        self.begun = True
        self._write()

    def add(self, draw: Draw) -> None:
        """Save this draw, and the waiting ones that follow it, if all earlier ones are saved."""
        self.waiting[draw.number] = draw
        self._write()

    def _write(self) -> None:
        lines = []
        while self.begun and (draw := self.waiting.pop(self.next, None)) is not None:
            lines.append(sweep.line_of(draw))
            self.next += 1
        if lines:
            sweep.append(self.run.folder, lines)


def run_sweeps(runs: Sequence[Run], force: bool = False) -> int:
    """Make the missing draws of these runs; returns their number.

    An error in one draw ends the others; draws that are saved stay.
    """
    todo = [ActiveSweep(run, None if force else saved_sweep(run)) for run in runs]
    todo = [sweeping for sweeping in todo if sweeping.missing]
    if not todo:
        return 0
    context = multiprocessing.get_context("spawn")
    over = threading.Event()
    threading.Thread(target=_end_stopped, args=(over,), daemon=True).start()
    workers = worker_processes(usable_cores(), context, _prepare)
    with safe_start(), contextlib.ExitStack() as locks_held, workers as pool:
        locks_held.callback(over.set)
        for sweeping in todo:
            locks_held.enter_context(lock_run(sweeping.run))
            if not sweeping.begun:
                safe_files.remove_safely(sweeping.run.folder / sweep.FILE)
        futures = {
            pool.submit(make_draw, sweeping.run.plain(), number): sweeping
            for sweeping in todo
            for number in sweeping.missing
        }
        try:
            _collect(futures, sum(number != CONFIGURED for each in todo for number in each.missing))
        except BrokenProcessPool:
            raise FaultError("a process of the draws was lost: killed, or stopped (SIGSTOP) and then ended") from None
    return len(futures)


def _end_stopped(over: threading.Event) -> None:
    """Kill worker processes that stay stopped, until the sweep is over."""
    watch = StopWatch(STOPPED_LOOKS)
    while not over.wait(LOOK_EVERY_S):
        for pid in watch.stopped(not_none(child.pid) for child in multiprocessing.active_children()):
            os.kill(pid, signal.SIGKILL)


def _collect(futures: Mapping[Future, ActiveSweep], total: int) -> None:
    """Save what the futures find; total: how many of them are draws, not runs as configured."""
    started = printed = time.monotonic()
    draws = 0
    for done, future in enumerate(as_completed(futures), start=1):
        sweeping, plain = futures[future], future.result()
        if "number" in plain:
            sweeping.add(Draw(**plain))
            draws += 1
        else:
            sweeping.begin(Record.of(plain))
        now = time.monotonic()
        if done == 1:  # the time until then was spent on starting the processes
            started = printed = now
        elif now - printed > PROGRESS_EVERY_S or done == len(futures):
            printed = now
            left = (now - started) / (done - 1) * (len(futures) - done)
            print(f"draws  {draws} of {total}, {format_duration(left)} left", file=sys.stderr, flush=True)


def saved_sweep(run: Run) -> Sweep | None:
    """The saved sweep of a run, if it was made with the current code and configuration."""
    saved = sweep.usable_sweep(run.folder)
    return saved if saved and saved.key == run.key else None


def continue_published(runs: Iterable[Run]) -> None:
    """Copy the published sweep of each run to its folder, if it has more draws than the saved one; `run_sweeps` then
    makes only those that are missing."""
    for paper, several in groupby(runs, lambda run: run.config.paper):
        published = {each.key: each for each in reference.sweeps(paper)}
        for run in several:
            saved, longer = saved_sweep(run), published.get(run.key)
            if longer and len(longer.draws) > (len(saved.draws) if saved else 0):
                with lock_run(run):
                    safe_files.remove_safely(run.folder / sweep.FILE)
                    sweep.append(run.folder, sweep.lines_of(longer))


def lock_run(run: Run) -> Any:
    safe_files.make_folder(run.folder)
    if (lock := locks.take_lock(run.folder / locks.RUN)) is None:
        raise InputError(f"{run.label}: another command is at work on its draws ({run.folder.name})")
    return lock


def _prepare() -> None:
    import torch

    torch.set_num_threads(1)


def make_draw(plain: dict[str, Any], number: int) -> dict[str, Any]:
    """Make one draw: its number, values and result; for `CONFIGURED` the whole record."""
    from repro.core import own_code
    from repro.core.fields import check_fields
    from repro.experiment import draws
    from repro.experiment.schema import RunConfig
    from repro.rank.draws import simulate_draw

    own_code.admit_configured(plain["config"])
    config = check_fields(RunConfig, plain["config"] | {"hardware": plain["hardware"]})
    if number == CONFIGURED:
        return simulate_draw(draws.change_entries(config, {})).plain()
    values = draws.draw_entries(config, config.draws)[number]
    entries = {path: value for of_input in values.values() for path, value in of_input.items()}
    result = simulate_draw(draws.change_entries(config, entries)).result.model_dump(mode="json")
    return {"number": number, "values": values, "result": sweep.shorten_result(result)}
