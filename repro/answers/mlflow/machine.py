"""Samples of the machine's CPU, memory and, with NVIDIA's library, GPUs while a run trains.

They are of the whole machine that launched the run, so that runs side by side show the same. The launching process
writes them to a file in the run's folder, and the mirror sends them to MLflow under the names of its own monitors.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from repro.core import safe_files
from repro.core.errors import InputError

SAMPLES = "system.jsonl"  # in a run's folder, a sample a line: {"time": milliseconds since 1970, name: value, ...}
EVERY_S = 10.0  # a sample takes about a millisecond of a core


@contextlib.contextmanager
def sampled(folder: Path, every_s: float = EVERY_S) -> Iterator[None]:
    """Sample the machine while the body runs, each `every_s` seconds and at the end, into the run's folder."""
    over = threading.Event()
    thread = threading.Thread(target=_sample, args=(folder / SAMPLES, over, every_s), name="samples", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(every_s)


def _sample(path: Path, over: threading.Event, every_s: float) -> None:
    monitors = _monitors()
    _values(monitors)  # the first sample of the CPU is over no time
    while not over.is_set():
        over.wait(every_s)
        values = {"time": round(1000 * time.time())} | _values(monitors)
        # the run reports a full disk
        with contextlib.suppress(OSError, InputError), safe_files.open_file(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


def _monitors() -> list[Any]:
    """MLflow's monitors of CPU and memory, and of GPUs if there are GPUs and the package nvidia-ml-py."""
    from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
    from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor

    monitors: list[Any] = [CPUMonitor()]
    with contextlib.suppress(ImportError, RuntimeError):
        monitors.append(GPUMonitor())
    return monitors


def _values(monitors: list[Any]) -> dict[str, float]:
    values: dict[str, float] = {}
    for monitor in monitors:
        monitor.collect_metrics()
        values |= monitor.aggregate_metrics()
        monitor.clear_metrics()
    return values
