"""One trial: a workspace, the command that runs in it, and a check that nothing was lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.core.errors import InputError
from repro.core.not_none import not_none
from repro.core.processes import safe_environment
from repro.records import store
from repro.records.record import Record, TrainResult
from tests.faults import checkpoints, processes, training

EARLY = 0.25  # the share of faults before the training
PATIENCE_S = 600.0  # time limit of a command, which only a hang exceeds


class Lost(Exception):
    """The trial failed: the fault caused a loss."""


class Impossible(Exception):
    """This machine cannot inject the fault."""


@dataclass(frozen=True)
class Undisturbed:
    """A run without faults, its seconds before and after the first event. killed: the workspace of a run killed
    half-way."""

    record: Record
    start_s: float
    seconds: float
    killed: Path


class Command:
    """A started `repro run`, whose messages go to the file `output`."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], output: Path):
        self.output = output
        with open(output, "wb") as file:
            self.process = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # the summaries, which are in the workspace too
                stderr=file,
                start_new_session=True,
                preexec_fn=_restore_sigint,
            )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def end(self) -> int:
        """Wait for its end; returns its exit status (negative: the signal that killed it)."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Lost(f"the command did not end within {PATIENCE_S:g} s: {self.messages()}") from None

    def messages(self) -> str:
        return self.output.read_text(errors="replace").strip()


def _restore_sigint() -> None:
    """Restore SIGINT in a new process: a shell's background processes ignore it, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Trial:
    """A strategy's run in a folder of its own."""

    def __init__(self, strategy: str, folder: Path, dice: random.Random, undisturbed: Undisturbed | None = None):
        """undisturbed: None only for the baseline itself."""
        self.strategy, self.folder, self.dice, self.undisturbed = strategy, folder, dice, undisturbed
        self.closing = contextlib.ExitStack()  # cleanups of the fault, for the trial's end
        self.results = self.seen = folder / "results"  # as the command sees it; as this process sees it
        self.results.mkdir(parents=True, exist_ok=True)
        self.prefix: list[str] = []  # words before the command, for a disk of its own
        self.commands = 0
        self.struck = False  # whether the fault made a command fail, or damaged its files

    # --- the command
    def start(self, *overrides: str, mlflow: str | None = None) -> Command:
        """Start the trial's command. mlflow: the tracking server; None: without one."""
        inherited = safe_environment().items()
        environment = {name: value for name, value in inherited if not name.startswith(("REPRO_", "MLFLOW_"))}
        environment |= {name: os.environ[name] for name in ("REPRO_DATA",) if name in os.environ}
        environment |= {"REPRO_RESULTS": str(self.results), "MLFLOW_DISABLE_TELEMETRY": "true"}
        if mlflow:
            environment["MLFLOW_TRACKING_URI"] = mlflow
        flags = ["--scale", training.SCALE, "--no-report", "--json", *([] if mlflow else ["--no-mlflow"])]
        overrides = (*training.overrides_of(self.strategy), *overrides)
        run = [sys.executable, "-m", "repro", "run", training.EXPERIMENT, *overrides, *flags]
        self.commands += 1
        return Command([*self.prefix, *run], environment, self.folder / f"command{self.commands}.log")

    def moment(self, command: Command, early: float = EARLY) -> None:
        """Sleep until a random time of the training or, with probability `early`, before it.

        It may be after the end of the run; then the fault has no effect.
        """
        undisturbed = not_none(self.undisturbed)
        if self.dice.random() < early:
            time.sleep(self.dice.uniform(0.0, undisturbed.start_s))
        else:
            iterations = trained(undisturbed.record).iterations
            between = iterations / training.CHECKPOINTS
            # by progress, not by time, because the machine's load varies
            self.await_training(command, self.dice.uniform(0.0, iterations) - between)
            time.sleep(self.dice.uniform(0.0, undisturbed.seconds / training.CHECKPOINTS))

    def await_training(self, command: Command, iteration: float = 0.0) -> None:
        """Wait for the first event and a checkpoint of at least that iteration, or for the command's end."""

        def reached() -> bool:
            if not any(log.stat().st_size for log in self.files("events.jsonl")):
                return False
            return iteration <= 0 or any(
                checkpoints.iteration(path) >= iteration for path in checkpoints.checkpoints_below(self.seen)
            )

        while command.running and not reached():
            time.sleep(0.005)

    def copy_killed(self) -> None:
        """Copy the workspace of the run that was killed half-way."""
        shutil.copytree(not_none(self.undisturbed).killed, self.seen, dirs_exist_ok=True)

    def files(self, pattern: str) -> list[Path]:
        """The sorted files of the workspace that match."""
        return sorted(self.seen.glob(f"*/*/*/**/{pattern}"))

    def run_folder(self) -> Path:
        """The folder of the run."""
        (folder,) = self.seen.glob("*/*/*-seed0-*")
        return folder

    # --- its end
    def wait(self, command: Command, *statuses: int, begun: bool = True) -> str:
        """Wait for the command's end; returns its messages.

        Lost if the status is none of `statuses` (0 is always allowed: the fault may have come too late), if there is a
        traceback or no one-line reason, or if processes are left. begun: False if Python was still importing, when
        signals have their default effect.
        """
        status, messages = command.end(), command.messages()
        left = processes.processes_of(self.results)
        self.struck = self.struck or status != 0
        if left:
            raise Lost(f"processes {left} still run after the command")
        if not begun:
            return messages
        if "Traceback" in messages:
            raise Lost(f"a traceback: {messages[-1500:]}")
        if status not in (0, *statuses):
            raise Lost(f"exit status {status}, not one of {(0, *statuses)}: {messages[-1500:]}")
        if status > 0 and len([line for line in messages.splitlines() if line.startswith("repro: ")]) != 1:
            raise Lost(f"no single line with the reason: {messages[-1500:]}")
        return messages

    def resumable(self, without: int | None = None) -> int | None:
        """The newest iteration, except `without`, of which every rank has a checkpoint; None without one, or if the run
        has finished."""
        with contextlib.suppress(InputError):  # a truncated summary does not count
            if self.record():
                return None
        iterations = [
            {checkpoints.iteration(path) for path in checkpoints.checkpoints_of_rank(self.seen, rank)} - {without}
            for rank in range(not_none(not_none(self.undisturbed).record.ranks))
        ]
        return max(set.intersection(*iterations), default=None)

    def check_resumed(self, messages: str, least: int | None) -> None:
        """Lost if a command resumed before iteration `least`, or started again."""
        resumed = re.search(r"resuming .* at iteration (\d+)", messages)
        if least is not None and (resumed is None or int(resumed[1]) < least):
            where = f"resumed at iteration {resumed[1]}" if resumed else "started again"
            raise Lost(f"{where}, though every rank has a checkpoint of iteration {least}: {messages[-1000:]}")

    def recover(self) -> None:
        """Repeat the command without fault: it must resume from the newest checkpoint and finish without loss."""
        least = self.resumable()
        messages = self.wait(self.start())
        self.check_resumed(messages, least)
        record = self.record()
        if record is None:
            raise Lost(f"no summary after the command succeeded: {messages[-500:]}")
        if wrong := differences(record, not_none(self.undisturbed).record, self.strategy):
            raise Lost("; ".join(wrong))

    def record(self) -> Record | None:
        records = [store.read(path.parent) for path in self.files("summary.json")]
        return records[0] if len(records) == 1 else None

    def clear(self) -> None:
        """Kill remaining processes and remove the workspace."""
        self.closing.close()
        processes.kill_all(self.results)
        shutil.rmtree(self.folder, ignore_errors=True)


def trained(record: Record) -> TrainResult:
    assert isinstance(record.result, TrainResult), record.name
    return record.result


def differences(record: Record, undisturbed: Record, strategy: str) -> list[str]:
    """The differences from the undisturbed run that show a loss or double counting."""
    wrong = []
    result, whole = trained(record), trained(undisturbed)

    def same(name: str, mine: Any, theirs: Any) -> None:
        if mine != theirs:
            wrong.append(f"{name}: {mine} where the undisturbed run has {theirs}")

    same("iterations", result.iterations, whole.iterations)
    same("evaluations", [point["iteration"] for point in result.curve], [point["iteration"] for point in whole.curve])
    same("counters", sorted(result.counters), sorted(whole.counters))
    gradients = result.iterations * record.identity.workers
    stale = [(int(rounds), count) for rank in result.staleness for rounds, count in rank.items()]
    if training.ends_with_same_bits(strategy):
        for name in ("weights_sha256", "bytes_sent", "staleness", "counters"):
            same(name, getattr(result, name), getattr(whole, name))
        for score in ("loss", "test_loss", record.identity.metric):
            same(score, [point[score] for point in result.curve], [point[score] for point in whole.curve])
        return wrong
    counters = result.counters
    if "accepted" in counters:  # a partial collective: each gradient is in one round, pending, or dropped
        same("gradients", sum(counters[name] for name in ("accepted", "pending", "dropped")), gradients)
        same("rounds", counters["rounds"], gradients)
        same("staleness of so many gradients", sum(count for _, count in stale), counters["accepted"])
    elif stale:  # each gradient is in one update
        same("staleness of so many gradients", sum(count for _, count in stale), gradients)
    # at a stop all ranks have done the same iterations, so no gradient is older than the previous stop
    stops = [not_none(point["iteration"]) for point in whole.curve]
    bound = max(after - before for before, after in itertools.pairwise(stops)) * record.identity.workers
    if stale and max(rounds for rounds, _ in stale) > bound:
        wrong.append(f"staleness {max(stale)[0]} above its bound of {bound}")
    return wrong
