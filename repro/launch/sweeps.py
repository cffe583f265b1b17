"""Draw the assumed inputs of simulated runs, the draws side by side on all cores, each kept as soon as it is there."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

from repro.core import locks, safe_files
from repro.core.errors import InputError
from repro.experiment.run import Run
from repro.records import sweep
from repro.records.record import Record
from repro.records.sweep import CONFIGURED, Draw, Sweep

NEWS_S = 5.0  # between lines about how far it is


@dataclass
class Sweeping:
    """A run whose draws are being made; `waiting`: those that come after one that is not there yet."""

    run: Run
    found: Sweep | None
    waiting: dict[int, Draw] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begun = self.found is not None
        self.next = len(self.found.draws) if self.found else 0

    @property
    def missing(self) -> list[int]:
        """The numbers of the draws to make."""
        return [*([] if self.begun else [CONFIGURED]), *range(self.next, self.run.config.draws)]

    def begin(self, found: Record) -> None:
        """Write what is drawn: the record of the run as configured."""
        run = self.run
        own = {"run": run.name, "key": run.key, "identity": run.config.identity.plain(), "hardware": run.hardware}
        own["provenance"] = run.made_by() | {"finished_at": found.provenance["finished_at"]}
        record = Record.of(found.plain() | own)
        sweep.append(run.folder, [sweep.head(run.key, record)])
        self.begun = True
        self._write()

    def keep(self, draw: Draw) -> None:
        """Write this draw, and those that follow it, once those before it are written."""
        self.waiting[draw.number] = draw
        self._write()

    def _write(self) -> None:
        lines = []
        while self.begun and (one := self.waiting.pop(self.next, None)) is not None:
            lines.append(sweep.line_of(one))
            self.next += 1
        if lines:
            sweep.append(self.run.folder, lines)


def run_sweeps(runs: Sequence[Run], force: bool = False) -> int:
    """Make the draws that the sweeps of these runs lack; how many were made.

    An error of one draw ends all, and what was drawn before is kept.
    """
    todo = [Sweeping(run, None if force else there(run)) for run in runs]
    todo = [one for one in todo if one.missing]
    if not todo:
        return 0
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as held, ProcessPoolExecutor(cores(), context, _prepare) as pool:
        for one in todo:
            held.enter_context(locked(one.run))
            if not one.begun:
                safe_files.remove(one.run.folder / sweep.FILE)
        futures = {pool.submit(drawn, one.run.plain(), number): one for one in todo for number in one.missing}
        try:
            _collect(futures)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return len(futures)


def cores() -> int:
    return len(os.sched_getaffinity(0))


def _collect(futures: Mapping[Future, Sweeping]) -> None:
    started = told = time.monotonic()
    for done, future in enumerate(as_completed(futures), start=1):
        one, found = futures[future], future.result()
        one.keep(Draw(**found)) if "number" in found else one.begin(Record.of(found))
        now = time.monotonic()
        if done == 1:  # until then processes started, which says nothing of the others
            started = told = now
        elif now - told > NEWS_S or done == len(futures):
            told = now
            left = (now - started) / (done - 1) * (len(futures) - done)
            print(f"draws  {done} of {len(futures)}, {left / 60:.0f} min left", file=sys.stderr, flush=True)


def there(run: Run) -> Sweep | None:
    """What is drawn of a run already, by the code and configuration of today."""
    found = sweep.usable(run.folder)
    return found if found and found.key == run.key else None


def locked(run: Run) -> Any:
    safe_files.make_folder(run.folder)
    if (lock := locks.take(run.folder / locks.RUN)) is None:
        raise InputError(f"{run.label}: another command is at work on its draws ({run.folder.name})")
    return lock


def _prepare() -> None:
    """Of a process that draws: one thread, and an end with its parent."""
    import signal

    import torch

    from repro.core.processes import end_with_parent

    end_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def drawn(plain: dict[str, Any], number: int) -> dict[str, Any]:
    """A draw: its number, values and result; of `CONFIGURED` the whole record."""
    from repro.core import own_code
    from repro.core.fields import checked
    from repro.experiment import draws
    from repro.experiment.schema import RunConfig
    from repro.rank.draws import evaluate

    own_code.admit_configured(plain["config"])
    config = checked(RunConfig, plain["config"] | {"hardware": plain["hardware"]})
    if number == CONFIGURED:
        return evaluate(draws.changed(config, {})).plain()
    values = draws.values(config, config.draws)[number]
    entries = {path: value for of_input in values.values() for path, value in of_input.items()}
    result = evaluate(draws.changed(config, entries)).result.model_dump(mode="json")
    return {"number": number, "values": values, "result": sweep.shortened(result)}
