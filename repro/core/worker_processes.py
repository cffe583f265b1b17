"""A pool of worker processes that end with the process that started it, and at once if the work is given up."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from typing import Any

from repro.core.command_process import temporary_folder
from repro.core.processes import end_with_parent


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


def _begin(prepare: Callable[..., Any], arguments: tuple) -> None:
    end_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the command ends its workers
    tempfile.tempdir = temporary_folder()
    prepare(*arguments)
