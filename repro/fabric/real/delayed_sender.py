"""Sends that start late, to emulate latency."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from repro.fabric.real.mpi import MpiFabric, MpiWork


class DelayedSend(MpiWork):
    """A send that has no MPI request until a `DelayedSender` posts it."""

    def __init__(self, fabric: MpiFabric, send: Callable[[], Any], what: str, data: torch.Tensor):
        super().__init__(fabric, None, what, data)
        self.send = send
        self.failed: Exception | None = None

    def post(self) -> None:
        try:
            self.request = self.send()
        except Exception as error:  # MPI's error, raised in the task that waits for the send
            self.failed = error

    def done(self) -> bool:
        if self.failed:
            raise self.failed
        return self.request is not None and super().done()


class DelayedSender:
    """Posts a rank's sends `delay_s` seconds late, in their order.

    The delay does not occupy the sender's link: p messages of n bytes arrive after delay + p * n * beta.
    """

    def __init__(self, delay_s: float):
        self.delay_s = delay_s
        self._queue: deque[tuple[float, DelayedSend]] = deque()
        self._posted = threading.Condition()
        threading.Thread(target=self._run, name="delayed_sender", daemon=True).start()

    def post(self, message: DelayedSend) -> None:
        with self._posted:
            self._queue.append((time.monotonic() + self.delay_s, message))
            self._posted.notify()

    def _run(self) -> None:
        while True:
            with self._posted:
                while not self._queue:
                    self._posted.wait()
                due, message = self._queue.popleft()
            if (rest := due - time.monotonic()) > 0:
                time.sleep(rest)
            message.post()
