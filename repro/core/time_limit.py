"""Run a task that another machine can delay, such as a download, within a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def run_within(limit_s: float, task: Callable[[], Result]) -> Result:
    """The result of `task()`, or its exception; TimeoutError if it takes longer than limit_s seconds.

    The task runs in a daemon thread: a peer that sends a byte now and then satisfies any timeout of a socket, and no
    other way ends the wait in a name look-up, a TLS handshake and a response's headers too. A late task goes on until
    it notices; it blocks neither its caller nor the end of the process.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="time limit", daemon=True).start()
    return future.result(limit_s)
