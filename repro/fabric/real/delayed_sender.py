"""Messages that leave later than they were given: latency, where the links have none of their own."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from repro.fabric.real.mpi import MpiFabric, MpiWork


class DelayedSend(MpiWork):
    """A send that a delayed_sender hands to MPI; until then it has no request."""

    def __init__(self, fabric: MpiFabric, send: Callable[[], Any], what: str, data: torch.Tensor):
        super().__init__(fabric, None, what, data)
        self.send = send
        self.failed: Exception | None = None

    def post(self) -> None:
        try:
            self.request = self.send()
        except Exception as error:  # of MPI: raised where somebody waits for it
            self.failed = error

    def done(self) -> bool:
        if self.failed:
            raise self.failed
        return self.request is not None and super().done()


class DelayedSender:
    """Posts a rank's messages `delay_s` seconds after they were given, in the order in which they were given.

    The sender's link is free meanwhile: p messages of n bytes, one after the other, are in after delay + p * n * beta.
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
