"""Small runs on real ranks, for strategies that need the library of a real fabric.

The first test that needs a fabric starts its ranks; they read runs from files (`repro.testing.serve`) until `end_ranks`
or the end of pytest.
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
from repro.launch.local import rank_environment
from repro.launch.pool import Pool
from repro.strategies.base import RunFacts
from repro.testing.ranks import LIMIT_S, launch_ranks

RANKS = 4


class Ranks:
    """`RANKS` ranks of a fabric that run the jobs in a folder."""

    def __init__(self, fabric: str):
        self.holder = tempfile.TemporaryDirectory()
        self.folder, self.numbers = Path(self.holder.name), itertools.count()
        self.failed: Exception | None = None
        self.thread = threading.Thread(target=self._follow, args=(fabric, rank_pool().python), daemon=True)
        self.thread.start()

    def _follow(self, fabric: str, python: str) -> None:
        try:
            program = ["-m", "repro.testing.serve", fabric, str(self.folder)]
            launch_ranks(fabric, RANKS, program, self.folder, stall_s=1e6, limit_s=1e6, python=python)
        except Exception as error:
            self.failed = error

    def run(self, size: int, setup: Any) -> list[Any]:
        name = f"job{next(self.numbers)}"
        (self.folder / "new").write_bytes(pickle.dumps((size, setup)))
        (self.folder / "new").rename(self.folder / name)
        files = [self.folder / f"{name}.rank{rank}" for rank in range(size)]
        limit = time.monotonic() + LIMIT_S
        while not all(file.exists() for file in files):
            if self.failed or time.monotonic() > limit:
                end_ranks()  # the next run starts new ones
                raise AssertionError(f"ranks of {setup.name}: {self.failed or f'no result after {LIMIT_S:g} s'}")
            time.sleep(0.005)
        results = [pickle.loads(file.read_bytes()) for file in files]
        if tracebacks := [result for result in results if isinstance(result, str)]:
            raise AssertionError(tracebacks[0])
        return results

    def end(self) -> None:
        if self.folder.exists():
            (self.folder / "end").touch()
        self.thread.join(20)
        self.holder.cleanup()


@functools.cache
def rank_pool() -> Pool:
    """The process, with PyTorch imported, from which ranks are forked; it ends with this process."""
    return Pool(rank_environment(threads=1))


_started: dict[str, Ranks] = {}


def end_ranks() -> None:
    """End the ranks of all fabrics; the next run starts new ones. Idle ranks take time too: gloo's threads poll."""
    while _started:
        _started.popitem()[1].end()


atexit.register(end_ranks)


def strategy_names() -> list[Any]:
    """Test parameters: every registered strategy, marked if it needs real ranks."""
    usable = strategies.REGISTRY.usable()  # tests of the others fail with the reason
    real = {name for name in usable if needed_library(name)}
    return [pytest.param(name, marks=[pytest.mark.ranks] * (name in real)) for name in strategies.strategy_names()]


def needed_library(name: str) -> str | None:
    """The fabric whose library a strategy needs; None if it needs none."""
    return next((LIBRARIES[needed] for needed in strategies.load_strategy(name).requires if needed in LIBRARIES), None)


def skip_without_library(name: str) -> None:
    """Skip the test if a strategy's library is not installed."""
    strategy = strategies.load_strategy(name)
    try:
        strategy.check(strategy.parse({}), RunFacts(workers=1, epochs=1))
    except InputError as error:
        pytest.skip(str(error))


def run_on_ranks(fabric: str, size: int, setup: Any) -> list[Any]:
    """`small.one_rank(fabric, setup)` on `size` ranks of a fabric, at most `RANKS`; returns each rank's result."""
    skip_without_library(setup.name)
    if fabric not in _started:
        _started[fabric] = Ranks(fabric)
    return _started[fabric].run(size, setup)
