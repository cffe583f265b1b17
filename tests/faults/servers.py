"""Faults of the MLflow tracking server, unreachable or silent: the run must succeed without it."""

from __future__ import annotations

import socket
from collections.abc import Callable

from tests.faults.trial import Lost, Trial


def _mirrored(trial: Trial, listening: socket.socket) -> None:
    command = trial.start(mlflow=f"http://127.0.0.1:{listening.getsockname()[1]}")
    messages = trial.wait(command)
    trial.struck = "MLflow" in messages
    if not trial.struck:
        raise Lost(f"the command does not report that the tracking server did not answer: {messages[-1000:]}")


def dead(trial: Trial) -> None:
    """No server listens at the address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # so that no other process takes the port; it never listens
        _mirrored(trial, bound)


def silent(trial: Trial) -> None:
    """The server accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        _mirrored(trial, listening)


FAULTS: dict[str, Callable[[Trial], None]] = {"a dead MLflow server": dead, "a silent MLflow server": silent}
