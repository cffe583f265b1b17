"""What the trials of a strategy are held against: a run without faults and one killed half-way, each made once."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import time
from pathlib import Path

from repro.common.atomic import write_atomically
from repro.common.errors import FaultError
from repro.faults import damage, processes
from repro.faults.trial import Trial, Undisturbed

ATTEMPTS = 6  # to kill a run between its second checkpoint and its end


def of(strategy: str, folder: Path, key: str) -> Undisturbed:
    """The baseline of a strategy, from `folder` where one with this run key is there, else made there.

    Raises FaultError where the undisturbed run itself does not end well.
    """
    record, killed = folder / f"{strategy}.json", folder / f"{strategy}.killed"
    with contextlib.suppress(OSError, ValueError, KeyError):
        known = json.loads(record.read_text(encoding="utf-8"))
        if known["summary"]["key"] == key and killed.is_dir():
            return Undisturbed(known["summary"], known["seconds"], killed)
    shutil.rmtree(killed, ignore_errors=True)
    whole = _whole(strategy, folder / f"{strategy}.whole", killed)
    _kill_half_way(strategy, folder / f"{strategy}.half", whole)
    write_atomically(record, json.dumps({"summary": whole.summary, "seconds": whole.seconds}) + "\n")
    return whole


def _whole(strategy: str, folder: Path, killed: Path) -> Undisturbed:
    trial = Trial(strategy, folder, random.Random(0))
    command = trial.start()
    trial.await_training(command)
    began = time.monotonic()
    while command.running and not trial.files("summary.json"):
        time.sleep(0.002)
    seconds = time.monotonic() - began
    if command.end() != 0 or (summary := trial.summary()) is None:
        raise FaultError(f"strategy {strategy}: the run without faults failed: {command.said()[-1500:]}")
    trial.clear()
    return Undisturbed(summary, seconds, killed)


def _kill_half_way(strategy: str, folder: Path, whole: Undisturbed) -> None:
    """Kill everything of a run when every rank has two checkpoints or more, and keep its workspace."""
    for _ in range(ATTEMPTS):
        trial = Trial(strategy, folder, random.Random(0), whole)
        command = trial.start()
        trial.await_training(command)
        while command.running and not _two_each(trial, whole.summary["ranks"]):
            time.sleep(0.002)
        processes.kill(processes.of(trial.results), signal.SIGKILL)
        command.end()
        if not trial.files("summary.json") and _two_each(trial, whole.summary["ranks"]):
            shutil.move(trial.results, whole.killed)
            trial.clear()
            return
        trial.clear()
    raise FaultError(f"strategy {strategy}: no run of {ATTEMPTS} could be killed between a checkpoint and its end")


def _two_each(trial: Trial, ranks: int) -> bool:
    folders = list(trial.seen.glob("*/*/*-seed0-*"))
    return bool(folders) and all(len(damage.generations(folders[0], rank)) >= 2 for rank in range(ranks))
