"""The start-up time of `repro run`, and what forked ranks cost.

It measures the time to the first step of a 2-rank run, and of a torchrun script with the same imports; the CPU time of
a command whose run is already done; and the steps of forked and of fresh ranks. It starts every command as a user
would, in turns. Ranks record intervals by the machine's clock, so that a trace tells how long after the start of the
command the first step ended.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from repro.core.paths import PROJECT
from repro.probes.shared.stopwatch import time_spread
from repro.records.events import read_events
from tests.bench import torchrun_script

RANKS = 2
COMMAND = [sys.executable, "-m", "repro", "run", "pipesgd/fig4-mnist", "--no-mlflow", "--no-report"]
RUN = ["strategy=dsync", "testbed=here", "dataset.standin=always", f"workers={RANKS}", "batch=40", "trace_steps=1"]
ONE_STEP = [*RUN, "epochs=0.001"]
SCRIPT = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "-m", torchrun_script.__name__]

SIZES = {"quick": (1, 0.1), "full": (5, 20.0)}  # turns; epochs of the longer runs, whose fastest steps are compared
GOALS = [
    {"what": "the first step of a run planned before, over a torchrun script's", "where": {"what": "planned before"},
     "over": {"what": "torchrun"}, "number": "seconds.median", "at_most": 1.1},
    {"what": "CPU seconds of a command with nothing to run", "where": {"what": "nothing to run"},
     "number": "seconds.median", "at_most": 1.0},
]  # fmt: skip


def measure_rows(scale: str) -> list[dict[str, Any]]:
    """A row for each measurement. what: torchrun, planned anew, planned before (seconds until the end of the first
    step); nothing to run (CPU seconds); forked, fresh (seconds of the fastest step)."""
    turns, epochs = SIZES[scale]
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as holder:
        for turn in range(turns):
            where = Path(holder) / str(turn)  # with a new cache: the first command plans, later ones reuse the plan
            for what, measure in measurements(where, epochs).items():
                times.setdefault(what, []).append(measure())
    return [{"what": what, "seconds": time_spread(seconds)} for what, seconds in times.items()]


def measurements(where: Path, epochs: float) -> dict[str, Callable[[], float]]:
    """The measurements of a turn, in this order."""
    return {
        "torchrun": lambda: script(where),
        "planned anew": lambda: first_step(where, []),
        "planned before": lambda: first_step(where, ["--force"]),
        "nothing to run": lambda: cpu_seconds(where),
        "forked": lambda: step_seconds(where, epochs, ["--force"]),
        "fresh": lambda: step_seconds(where, epochs, ["--force", "--fresh-ranks"]),
    }


def start(words: Sequence[str], where: Path) -> str:
    """Run a command with results and cache below `where`; returns its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REPRO_")}
    environment |= {"REPRO_RESULTS": str(where / "results"), "XDG_CACHE_HOME": str(where / "cache")}
    environment["OMP_NUM_THREADS"] = "1"
    return subprocess.run(words, env=environment, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True).stdout


def script(where: Path) -> float:
    """Seconds from the start of torchrun to the end of its script's first step."""
    began = time.perf_counter()
    (line,) = (line for line in start(SCRIPT, where).splitlines() if line.startswith("@"))
    return float(json.loads(line[1:])["first_step"]) - began


def first_step(where: Path, flags: Sequence[str]) -> float:
    """Seconds from the start of `repro run` to the end of the first step of a run with one step."""
    began = time.perf_counter()
    start([*COMMAND, *ONE_STEP, *flags], where)
    newest = max(where.rglob("events.jsonl"), key=lambda path: path.stat().st_mtime)
    (trace,) = (event for event in read_events(newest) if event["event"] == "trace")
    return max(interval["end"] for interval in trace["intervals"]) - began


def cpu_seconds(where: Path) -> float:
    """CPU seconds of the command when its run is already done."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start([*COMMAND, *ONE_STEP], where)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def step_seconds(where: Path, epochs: float, flags: Sequence[str]) -> float:
    """Seconds of the fastest step of a longer run, which other load on the machine disturbs least."""
    (record,) = json.loads(start([*COMMAND, *RUN, f"epochs={epochs}", "--json", *flags], where))
    return float(record["result"]["step"]["min_s"])
