"""Small runs on real ranks, for strategies that need a library which the virtual fabric lacks.

The first test that needs the ranks of a fabric starts them; they read runs from files, and end with pytest.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import pickle
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from repro import strategies
from repro.core.errors import InputError
from repro.fabric.base import LIBRARIES
from repro.launch.local import environment
from repro.launch.pool import Pool
from repro.strategies.base import RunFacts
from repro.testing.ranks import LIMIT_S, launch

RANKS = 4


class Ranks:
    """`RANKS` ranks of a fabric, which run the jobs in a folder (`repro.testing.serve`)."""

    def __init__(self, fabric: str):
        self.holder = tempfile.TemporaryDirectory()
        self.folder, self.numbers = Path(self.holder.name), itertools.count()
        self.failed: Exception | None = None
        self.thread = threading.Thread(target=self._follow, args=(fabric, pool().python), daemon=True)
        self.thread.start()
        atexit.register(self.end)

    def _follow(self, fabric: str, python: str) -> None:
        try:
            program = ["-m", "repro.testing.serve", fabric, str(self.folder)]
            launch(fabric, RANKS, program, self.folder, stall_s=1e6, limit_s=1e6, python=python)
        except Exception as error:
            self.failed = error

    def run(self, size: int, setup: Any) -> list[Any]:
        name = f"job{next(self.numbers)}"
        (self.folder / "new").write_bytes(pickle.dumps((size, setup)))
        (self.folder / "new").rename(self.folder / name)
        answers = [self.folder / f"{name}.rank{rank}" for rank in range(size)]
        limit = time.monotonic() + LIMIT_S
        while not all(answer.exists() for answer in answers):
            if self.failed or time.monotonic() > limit:
                started.cache_clear()  # the next run starts new ranks
                self.end()
                raise AssertionError(f"ranks of {setup.name}: {self.failed or f'no answer after {LIMIT_S:g} s'}")
            time.sleep(0.005)
        found = [pickle.loads(answer.read_bytes()) for answer in answers]
        if wrong := [text for text in found if isinstance(text, str)]:
            raise AssertionError(wrong[0])
        return found

    def end(self) -> None:
        if self.folder.exists():
            (self.folder / "end").touch()
        self.thread.join(20)
        self.holder.cleanup()


@functools.cache
def pool() -> Pool:
    """What all ranks are forked from, which has imported PyTorch; it ends with this process."""
    return Pool(environment(threads=1))


@functools.cache
def started(fabric: str) -> Ranks:
    return Ranks(fabric)


def strategy_names() -> list[Any]:
    """Test parameters: every registered strategy, marked if it needs real ranks."""
    usable = strategies.REGISTRY.usable()  # tests of unusable ones fail with the reason
    real = {name for name in usable if library(name)}
    return [pytest.param(name, marks=[pytest.mark.ranks] * (name in real)) for name in strategies.names()]


def library(name: str) -> str | None:
    """The fabric whose library a strategy needs; None if it needs none."""
    return next((LIBRARIES[needed] for needed in strategies.load(name).requires if needed in LIBRARIES), None)


def need(name: str) -> None:
    """Skip the test if a strategy's library is not installed."""
    strategy = strategies.load(name)
    try:
        strategy.check(strategy.parse({}), RunFacts(workers=1, epochs=1))
    except InputError as error:
        pytest.skip(str(error))


def run(fabric: str, size: int, setup: Any) -> list[Any]:
    """`small.one_rank(fabric, setup)` on `size` ranks of a fabric, at most `RANKS`; returns each rank's result."""
    need(setup.name)
    return started(fabric).run(size, setup)
