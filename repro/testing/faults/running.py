"""Faults that strike a command while its ranks train."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable

from repro.testing.faults import processes
from repro.testing.faults.trial import Command, Lost, Trial

STOPPED_LIMIT_S = 6  # how long the others wait for a stopped rank


def _a_rank(trial: Trial, command: Command, sign: signal.Signals) -> int | None:
    """Send a random rank a signal, as soon as there are ranks; its number, or None where all have ended."""
    while not (ranks := processes.ranks(trial.results)) and command.running:
        time.sleep(0.1)
    if not ranks or not command.running:
        return None
    rank = trial.dice.choice(sorted(ranks))
    processes.kill([ranks[rank]], sign)
    return rank


def rank_killed(trial: Trial) -> None:
    """SIGKILL to a random rank: the command names it and ends."""
    command = trial.start()
    trial.moment(command)
    rank = _a_rank(trial, command, signal.SIGKILL)
    said = trial.ended(command, 1)
    if trial.struck and f"rank {rank}" not in said:
        raise Lost(f"rank {rank} was killed, which the command does not say: {said[-1000:]}")


def rank_stopped(trial: Trial) -> None:
    """SIGSTOP to a random rank: the others wait no longer than their limit, and say for whom."""
    command = trial.start(f"timeout_s={STOPPED_LIMIT_S}")
    trial.moment(command, early=0.0)  # while MPI starts nobody's limit counts yet
    _a_rank(trial, command, signal.SIGSTOP)
    said = trial.ended(command, 1)
    # the first whose limit passes may wait for a rank that itself waits for the stopped one
    if trial.struck and len(set(re.findall(r"\brank (\d+)", said))) < 2:
        raise Lost(f"a rank was stopped, and the command does not say who waits for whom: {said[-1000:]}")


def everything_killed(trial: Trial) -> None:
    """SIGKILL to the command, its launcher and all ranks at once, as by a machine that goes down."""
    command = trial.start()
    trial.moment(command)
    processes.kill_all(trial.results)
    trial.ended(command, -signal.SIGKILL)


def command_killed(trial: Trial) -> None:
    """SIGKILL to the command alone; the same command at once, while its ranks may still be ending."""
    command = trial.start()
    trial.moment(command)
    processes.kill([command.process.pid], signal.SIGKILL)
    trial.struck = command.end() != 0


def _asked_to_end(trial: Trial, sign: signal.Signals) -> None:
    command = trial.start()
    trial.moment(command)
    begun = bool(command.said())
    processes.kill([command.process.pid], sign)
    command.end()
    over = trial.files("summary.json")  # then it may have been on its way out, where signals have their usual effect
    trial.ended(command, 128 + sign, *([-sign] if over else []), begun=begun)


def terminated(trial: Trial) -> None:
    """SIGTERM to the command."""
    _asked_to_end(trial, signal.SIGTERM)


def interrupted(trial: Trial) -> None:
    """SIGINT to the command, as by Ctrl-C."""
    _asked_to_end(trial, signal.SIGINT)


def started_twice(trial: Trial) -> None:
    """The same command again while the first runs: one of them is refused in a line, the other is undisturbed."""
    command = trial.start()
    trial.moment(command)
    second = trial.start()
    statuses = [command.end(), second.end()]
    trial.struck = any(statuses)
    for one, status in zip((command, second), statuses, strict=True):
        if status not in (0, 2) or "Traceback" in one.said():
            raise Lost(f"exit status {status}: {one.said()[-1000:]}")
    if all(statuses):
        raise Lost(f"neither ran: {command.said()[-500:]}; {second.said()[-500:]}")


FAULTS: dict[str, Callable[[Trial], None]] = {
    "a rank killed (SIGKILL)": rank_killed,
    "a rank stopped (SIGSTOP)": rank_stopped,
    "everything killed at once": everything_killed,
    "the command alone killed": command_killed,
    "SIGTERM to the command": terminated,
    "SIGINT to the command": interrupted,
}
TWICE = {"two commands on one experiment": started_twice}
