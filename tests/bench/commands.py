"""Seconds of what people wait for, each command started as a user would, in turns.

A small run beside a torchrun script that imports and trains the same; `repro verify`; a paper's page after one new run;
`repro recommend` of a listed model; and the project's tests. CPU time is that of the command and all its processes.
Beside verify and a page stand bare programs (`bare_commands`).
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from repro.core.paths import PROJECT
from repro.core.processes import PRCTL
from repro.probes.shared.stopwatch import time_spread
from tests.bench import bare_commands, first_step

REPRO = [sys.executable, "-m", "repro"]
BARE = [sys.executable, "-m", bare_commands.__name__]
EPOCHS = 4  # of the small run
STEPS = 35 * EPOCHS  # of the stand-in's 1,437 digits, 40 a minibatch
RECOMMEND = ["recommend", "resnet50", "--bandwidth", "10g", "--workers", "16", "--step-ms", "180"]
SUBREAPER = 36  # prctl(2)
ENDING_S = 1.0  # until orphans of a command have ended
CORES = len(os.sched_getaffinity(0))
TESTS = [sys.executable, "-m", "pytest", "-q", "-n", str(CORES + 1), "--dist", "loadfile", "--no-loadscope-reorder"]

SIZES = {"quick": (1, ["tests/unit/core"]), "full": (3, [])}  # turns; the tests that are run (none: all), once
GOALS = [
    {"what": "CPU time of a small run over a torchrun script's that trains the same", "where": {"what": "small run"},
     "over": {"what": "torchrun"}, "number": "cpu_s.min", "at_most": 1.3},
    {"what": "seconds of repro verify", "where": {"what": "verify"}, "floor": {"what": "verify, bare"},
     "number": "wall_s.min", "at_most": 12},
    {"what": "seconds of a paper's page after one new run", "where": {"what": "page after a run"},
     "floor": {"what": "page, bare"}, "number": "wall_s.min", "at_most": 3},
    {"what": "seconds of repro recommend, a listed model", "where": {"what": "recommend"}, "number": "wall_s.min",
     "at_most": 5},
    {"what": "CPU minutes of make test", "where": {"what": "tests"}, "number": "cpu_s.min / 60", "at_most": 15},
    {"what": "seconds of make test over its CPU time", "where": {"what": "tests"}, "number": "wall_s.min / cpu_s.min",
     "at_most": 0.6},
]  # fmt: skip


def measure_rows(scale: str) -> list[dict[str, Any]]:
    """A row for each command: its seconds on the wall and of CPU time."""
    turns, tests = SIZES[scale]
    taken: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as holder:
        where = Path(holder)
        run_small(where, 0)
        first_step.start([*REPRO, "report", bare_commands.PAPER], where)
        for turn in range(1, turns + 1):
            calls: dict[str, Callable[[], Any]] = {
                "torchrun": partial(first_step.start, [*first_step.SCRIPT, str(STEPS)], where),
                "small run": partial(run_small, where, turn),
                "page after a run": partial(first_step.start, [*REPRO, "report", bare_commands.PAPER], where),
                "page, bare": partial(first_step.start, [*BARE, "page"], where),
                "verify": partial(first_step.start, [*REPRO, "verify"], where),
                "verify, bare": partial(first_step.start, [*BARE, "verify"], where),
                "recommend": partial(first_step.start, [*REPRO, *RECOMMEND], where),
            }
            if turn == 1:
                calls["tests"] = partial(run_tests, tests)
            for what, call in calls.items():
                taken.setdefault(what, []).append(seconds_of(call))
    rows = []
    for what, times in taken.items():
        wall, cpu = map(time_spread, zip(*times, strict=True))
        rows.append({"what": what, "wall_s": wall, "cpu_s": cpu})
    return rows


def run_small(where: Path, seed: int) -> None:
    """A run that its seed makes new."""
    first_step.start([*first_step.COMMAND, *first_step.RUN, f"epochs={EPOCHS}", f"seed={seed}"], where)


def run_tests(paths: Sequence[str]) -> None:
    """Run the tests as `make test` does; one that fails has taken its time all the same."""
    subprocess.run([*TESTS, *paths], cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def seconds_of(call: Callable[[], Any]) -> tuple[float, float]:
    """(seconds on the wall, CPU seconds of ended processes) of a call that starts commands.

    Linux counts the CPU time of a process for its parent when that waits for it. Ranks and pools may outlive their
    parents, so this process adopts them.
    """
    if PRCTL:
        PRCTL(SUBREAPER, 1, 0, 0, 0)
    before, began = children_cpu(), time.perf_counter()
    call()
    wall = time.perf_counter() - began
    time.sleep(ENDING_S)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return wall, children_cpu() - before


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
