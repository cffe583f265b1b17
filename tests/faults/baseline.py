"""The baseline of a strategy's trials: a run without faults and a run killed half-way, each made once."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import threading
import time
from collections import defaultdict
from pathlib import Path

from repro.core.atomic import write_atomically
from repro.core.errors import FaultError
from repro.core.not_none import not_none
from repro.records.record import Record
from tests.faults import checkpoints, processes
from tests.faults.trial import Trial, Undisturbed, trained

ATTEMPTS = 6  # attempts to kill a run between its second checkpoint and its end

_making: defaultdict[tuple[str, Path], threading.Lock] = defaultdict(threading.Lock)


def find_baseline(strategy: str, folder: Path, key: str) -> Undisturbed:
    """The baseline of a strategy, from `folder` if it has one with this run key, else made there.

    FaultError if the run without faults fails.
    """
    with _making[strategy, folder]:  # concurrent trials may need it
        return _found_or_made(strategy, folder, key)


def _found_or_made(strategy: str, folder: Path, key: str) -> Undisturbed:
    file, killed = folder / f"{strategy}.json", folder / f"{strategy}.killed"
    with contextlib.suppress(OSError, ValueError, KeyError):
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["record"]["key"] == key and killed.is_dir():
            return Undisturbed(Record.of(stored["record"]), stored["start_s"], stored["seconds"], killed)
    shutil.rmtree(killed, ignore_errors=True)
    whole = _whole(strategy, folder / f"{strategy}.whole", killed)
    _kill_half_way(strategy, folder / f"{strategy}.half", whole)
    content = {"record": whole.record.plain(), "start_s": whole.start_s, "seconds": whole.seconds}
    write_atomically(file, json.dumps(content) + "\n")
    return whole


def _whole(strategy: str, folder: Path, killed: Path) -> Undisturbed:
    trial = Trial(strategy, folder, random.Random(0))
    started = time.monotonic()
    command = trial.start()
    trial.await_training(command)
    began = time.monotonic()
    while command.running and not trial.files("summary.json"):
        time.sleep(0.002)
    seconds = time.monotonic() - began
    if command.end() != 0 or (record := trial.record()) is None:
        raise FaultError(f"strategy {strategy}: the run without faults failed: {command.messages()[-1500:]}")
    trial.clear()
    return Undisturbed(record, began - started, seconds, killed)


def _kill_half_way(strategy: str, folder: Path, whole: Undisturbed) -> None:
    """Kill a run when every rank has two checkpoints, one of them of its second half; keep its workspace."""
    for _ in range(ATTEMPTS):
        trial = Trial(strategy, folder, random.Random(0), whole)
        command = trial.start()
        trial.await_training(command)
        while command.running and not _half_way(trial, whole.record):
            time.sleep(0.002)
        processes.kill_all(trial.results)
        command.end()
        if not trial.files("summary.json") and _half_way(trial, whole.record):
            shutil.move(trial.results, whole.killed)
            trial.clear()
            return
        trial.clear()
    raise FaultError(f"strategy {strategy}: no run of {ATTEMPTS} could be killed between a checkpoint and its end")


def _half_way(trial: Trial, whole: Record) -> bool:
    folders = list(trial.seen.glob("*/*/*-seed0-*"))
    each = (
        [checkpoints.checkpoints_of_rank(folders[0], rank) for rank in range(not_none(whole.ranks))]
        if folders
        else [[]]
    )
    return all(len(paths) >= 2 and 2 * checkpoints.iteration(paths[-1]) >= trained(whole).iterations for paths in each)
