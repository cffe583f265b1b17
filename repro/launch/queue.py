"""The queue of a GPU: experiments in the order of their worth, run within minutes (`paper_configs/gpu_queue.yaml`).

Each entry is a `repro run` in a process of its own: it skips what is done or published, continues what is unfinished,
and is ended in time; a failure does not stop the others.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, model_validator

from repro.core import user_files
from repro.core.choices import QUICK
from repro.core.errors import InputError, NotHere
from repro.core.fields import Model, Positive, Text, checked_entries
from repro.core.paths import CONFIGS
from repro.core.processes import end_with_parent
from repro.experiment.config import experiment_names
from repro.launch.plan import check_runs

FILE = CONFIGS / "gpu_queue.yaml"
LEAST_S = 10.0  # an entry is not started for less: importing PyTorch takes some seconds
STOP_S = 15.0  # time that a command has to end its ranks
PACK_EVERY_S = 120.0  # what a machine that is taken away costs at most


def split_run(arguments: str) -> tuple[str, str, list[str]]:
    """The experiment, scale and overrides of an entry's `run`; InputError for other arguments."""
    experiment, *others = shlex.split(arguments) or [""]
    scale = QUICK
    if "--scale" in others[:-1]:
        at = others.index("--scale")
        _, scale = others[at : at + 2]
        del others[at : at + 2]
    if wrong := next((word for word in others if word.startswith("-") or "=" not in word), None):
        raise InputError(f"run: {wrong!r}: must be EXPERIMENT [--scale SCALE] [KEY=VALUE ...]")
    return experiment, scale, others


def _as_run(arguments: str) -> str:
    experiment_names(split_run(arguments)[0])  # raises for an unknown one
    return arguments


def _claim(name: str) -> str:
    if name.count("/") != 1:
        raise InputError(f"decides: {name!r}: must be PAPER/CLAIM")
    return name


class Entry(Model):
    """An entry of the queue."""

    part = "entry"

    name: Text
    run: Annotated[Text, AfterValidator(_as_run)]  # the arguments of `repro run`
    budget: Positive  # minutes that it takes of one call at most
    minutes: Positive  # on one H100, until it is done
    source: Text  # of these minutes
    decides: list[Annotated[Text, AfterValidator(_claim)]]
    every_machine: bool = False  # runs although its results are published: a check of the machine
    at_once: bool = False  # is not started for less than its minutes: its checkpoint is too large to be packed

    @model_validator(mode="after")
    def _fits(self) -> Entry:
        if self.at_once and self.minutes > self.budget:
            raise ValueError(f"minutes={self.minutes:g}: runs at once, but its budget is {self.budget:g} minutes")
        return self


def read_queue(path: Path = FILE) -> list[Entry]:
    """The entries of a queue's file; InputError names the first invalid one."""
    entries = checked_entries(Entry, user_files.read_yaml(path, "queue") or None, path)  # an empty one is a mistake
    names = [entry.name for entry in entries]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{path}: entry '{twice}' stands there twice")
    return entries


def check_overrides(entries: Sequence[Entry], overrides: Sequence[str]) -> None:
    """The InputError of the first entry, if the overrides suit none. What needs data or PyTorch is not checked."""
    refused: list[InputError] = []
    for experiment, scale, own in (split_run(entry.run) for entry in entries):
        try:
            for name in experiment_names(experiment, scale):
                check_runs([name], [*own, *overrides], scale, 0, fetch=False)
            return
        except NotHere:
            return
        except InputError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def carry_out(entry: Entry, overrides: Sequence[str], until: float, pack: Callable[[], object]) -> int | None:
    """Run an entry until it ends or `until` (of `time.monotonic`); returns its exit status, None if it was ended.

    pack: called now and then, to save what is computed so far.
    """
    published = [] if entry.every_machine else ["--unpublished"]
    command = [sys.executable, "-m", "repro", "run", *shlex.split(entry.run), *overrides, *published]
    process = subprocess.Popen([*command, "--no-mlflow", "--no-report"], preexec_fn=end_with_parent)
    try:
        while (left := until - time.monotonic()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(min(left, PACK_EVERY_S))
            if until - time.monotonic() > PACK_EVERY_S / 2:
                pack()
        return None
    finally:
        stop_command(process)


def stop_command(process: subprocess.Popen[bytes]) -> None:
    """End a command and its ranks: by SIGTERM, after STOP_S seconds by SIGKILL."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
