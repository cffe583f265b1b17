"""Faults of processes: signals to a command or its ranks while they train."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable

from tests.faults import processes
from tests.faults.trial import Command, Lost, Trial

STOPPED_LIMIT_S = 6  # how long the others wait for a stopped rank


def _a_rank(trial: Trial, command: Command, sign: signal.Signals) -> int | None:
    """Send a signal to a random rank as soon as there are ranks; returns its number, or None if all have ended."""
    while not (ranks := processes.ranks(trial.results)) and command.running:
        time.sleep(0.1)
    if not ranks or not command.running:
        return None
    rank = trial.dice.choice(sorted(ranks))
    processes.kill([ranks[rank]], sign)
    return rank


def rank_killed(trial: Trial) -> None:
    """Kill a random rank: the command must name it and end."""
    command = trial.start()
    trial.moment(command)
    rank = _a_rank(trial, command, signal.SIGKILL)
    messages = trial.wait(command, 1)
    if trial.struck and f"rank {rank}" not in messages:
        raise Lost(f"the command does not report that rank {rank} was killed: {messages[-1000:]}")


def rank_stopped(trial: Trial) -> None:
    """Stop a random rank: the others must time out and name it."""
    command = trial.start(f"timeout_s={STOPPED_LIMIT_S}")
    trial.moment(command, early=0.0)  # there are no time limits while MPI starts
    _a_rank(trial, command, signal.SIGSTOP)
    messages = trial.wait(command, 1)
    # the first rank to time out may wait for a rank that waits for the stopped one
    if trial.struck and len(set(re.findall(r"\brank (\d+)", messages))) < 2:
        raise Lost(
            f"a rank was stopped, but the command does not report which rank waits for which: {messages[-1000:]}"
        )


def everything_killed(trial: Trial) -> None:
    """Kill the command, its launcher and all ranks at once, like a machine failure."""
    command = trial.start()
    trial.moment(command)
    processes.kill_all(trial.results)
    trial.wait(command, -signal.SIGKILL)


def command_killed(trial: Trial) -> None:
    """Kill only the command; it is repeated at once, while its ranks may still be ending."""
    command = trial.start()
    trial.moment(command)
    processes.kill([command.process.pid], signal.SIGKILL)
    trial.struck = command.end() != 0


def _end_by_signal(trial: Trial, sign: signal.Signals) -> None:
    command = trial.start()
    trial.moment(command)
    begun = bool(command.messages())
    processes.kill([command.process.pid], sign)
    command.end()
    over = trial.files("summary.json")  # then the command may have been exiting, with Python's default signal handling
    trial.wait(command, 128 + sign, *([-sign] if over else []), begun=begun)


def terminated(trial: Trial) -> None:
    """SIGTERM to the command."""
    _end_by_signal(trial, signal.SIGTERM)


def interrupted(trial: Trial) -> None:
    """SIGINT to the command, as by Ctrl-C."""
    _end_by_signal(trial, signal.SIGINT)


def started_twice(trial: Trial) -> None:
    """Start the command twice: one must be refused with a one-line error, the other must succeed."""
    command = trial.start()
    trial.moment(command)
    second = trial.start()
    statuses = [command.end(), second.end()]
    trial.struck = any(statuses)
    for started, status in zip((command, second), statuses, strict=True):
        if status not in (0, 2) or "Traceback" in started.messages():
            raise Lost(f"exit status {status}: {started.messages()[-1000:]}")
    if all(statuses):
        raise Lost(f"neither ran: {command.messages()[-500:]}; {second.messages()[-500:]}")


FAULTS: dict[str, Callable[[Trial], None]] = {
    "a rank killed (SIGKILL)": rank_killed,
    "a rank stopped (SIGSTOP)": rank_stopped,
    "everything killed at once": everything_killed,
    "the command alone killed": command_killed,
    "SIGTERM to the command": terminated,
    "SIGINT to the command": interrupted,
}
TWICE = {"two commands on one experiment": started_twice}
