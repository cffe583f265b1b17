"""A pool of worker processes that end with the process that started it, and at once if the work is given up."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.context import BaseContext
from typing import Any

from repro.core import config_folders
from repro.core.command_process import temporary_folder
from repro.core.processes import end_with_parent


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def worker_processes(
    count: int, context: BaseContext, prepare: Callable[..., Any], *arguments: Any
) -> Iterator[ProcessPoolExecutor]:
    """`count` processes that each call `prepare(*arguments)` first. An error in the block, an interrupt too, kills
    them: by default an executor would finish the work that it has begun, which may take minutes."""
    with ProcessPoolExecutor(count, context, _begin, (prepare, arguments)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.kill()
            raise


Start = Callable[..., Callable[[], Any]]  # starts a function with these arguments; returns a function for its result


@contextmanager
def open_processes(count: int, imported: Sequence[str]) -> Iterator[Start]:
    """Run functions in up to `count` processes, at most one a core; in this process if that is one.

    imported: modules that all of them need, which one process imports for all.
    """
    processes = min(count, usable_cores())
    if processes <= 1:
        yield partial
        return
    fresh = multiprocessing.get_context("forkserver")  # this process may have threads
    fresh.set_forkserver_preload(["__main__", *imported])
    with worker_processes(processes, fresh, config_folders.inherit_folders, config_folders.folders_variable()) as pool:
        # not `pool.map`, whose interrupt ends with a traceback
        yield lambda *work: pool.submit(*work).result


def _begin(prepare: Callable[..., Any], arguments: tuple) -> None:
    end_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the command ends its workers
    tempfile.tempdir = temporary_folder()
    prepare(*arguments)
