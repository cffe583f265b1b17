"""Waiting in tests. The limit is long, because the machine may be busy; it only ends a test that hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LIMIT_S = 600.0  # for steps that take seconds on an idle machine
PAUSE_S = 0.05

Found = TypeVar("Found")


def wait_until(condition: Callable[[], Found], what: str, over: Callable[[], bool] = lambda: False) -> Found:
    """The condition's result once it is true; AssertionError with `what` if `over` is true before, or at the limit."""
    until = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert not over(), f"{what}: it did not come before the end"
        assert time.monotonic() < until, f"{what}: not after {LIMIT_S:g} s"
        time.sleep(PAUSE_S)
    return found
