"""How soon a command does what it is for: the first step of a 2-rank run beside that of a torchrun script which imports
the same; the answer of one that has nothing to run; and the steps of forked ranks beside those of fresh ones.

Everything is started as a user would, in turns. The clock that ranks read their intervals from is the machine's, so
that the end of the first step is as long after the start of the command as its trace says.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.bench import start_program
from repro.core.paths import PROJECT
from repro.records.events import read_events

FIRST_STEP_GOAL, CACHED_GOAL_S = 1.1, 1.0
TURNS, STEPS_EPOCHS = 5, 20
RANKS = 2
COMMAND = [sys.executable, "-m", "repro", "run", "pipesgd/fig4-mnist", "--no-mlflow", "--no-report"]
RUN = ["strategy=dsync", "testbed=here", "dataset.standin=always", f"workers={RANKS}", "batch=40", "trace_steps=1"]
ONE_STEP = [*RUN, "epochs=0.001"]
SCRIPT = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "-m", start_program.__name__]


def measure(turns: int = TURNS, epochs: float = STEPS_EPOCHS) -> dict[str, Any]:
    """{first_step_s: {planned_anew, planned_before, torchrun}, ratio: {planned_anew, planned_before}, cached_cpu_s,
    step_s: {forked, fresh}, step_ratio, goals}; each of seconds with its median and all turns."""
    first: dict[str, list[float]] = {"torchrun": [], "planned_anew": [], "planned_before": []}
    steps: dict[str, list[float]] = {"forked": [], "fresh": []}
    cached = []
    with tempfile.TemporaryDirectory() as holder:
        for turn in range(turns):
            # a cache that is new knows no plan; the second command finds that of the first
            where = Path(holder) / str(turn)
            sides = sorted(("torchrun", "planned"), reverse=bool(turn % 2))
            for side in sides:
                if side == "torchrun":
                    first["torchrun"].append(script(where))
                else:
                    first["planned_anew"].append(first_step(where, []))
                    first["planned_before"].append(first_step(where, ["--force"]))
            cached.append(cpu_seconds(where))
            for kind in sorted(steps, reverse=bool(turn % 2)):
                flags = ["--force", *(["--fresh-ranks"] if kind == "fresh" else [])]
                steps[kind].append(step_seconds(where, epochs, flags))
    taken, stepped = summed(first), summed(steps)
    return {
        "ranks": RANKS,
        "first_step_s": taken,
        "ratio": {kind: taken[kind]["median"] / taken["torchrun"]["median"] for kind in first if kind != "torchrun"},
        "cached_cpu_s": summed({"cached": cached})["cached"],
        "step_s": stepped,
        "step_ratio": stepped["forked"]["median"] / stepped["fresh"]["median"],
        "goal": {"ratio": FIRST_STEP_GOAL, "cached_cpu_s": CACHED_GOAL_S},
    }


def summed(taken: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    return {kind: {"median": statistics.median(all_), "all": all_} for kind, all_ in taken.items()}


def start(words: Sequence[str], where: Path) -> str:
    """What a command prints, its results and cache in a folder of its own."""
    own = {"REPRO_RESULTS": str(where / "results"), "XDG_CACHE_HOME": str(where / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=os.environ | own, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def script(where: Path) -> float:
    """Seconds from the start of torchrun to the end of its script's first step."""
    began = time.perf_counter()
    (line,) = (line for line in start(SCRIPT, where).splitlines() if line.startswith("@"))
    return float(json.loads(line[1:])["first_step"]) - began


def first_step(where: Path, flags: Sequence[str]) -> float:
    """The same of a run of the harness that has one step."""
    began = time.perf_counter()
    start([*COMMAND, *ONE_STEP, *flags], where)
    newest = max(where.rglob("events.jsonl"), key=lambda path: path.stat().st_mtime)
    (trace,) = (event for event in read_events(newest) if event["event"] == "trace")
    return max(interval["end"] for interval in trace["intervals"]) - began


def cpu_seconds(where: Path) -> float:
    """Of the processor, that the command takes once more, with nothing to run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start([*COMMAND, *ONE_STEP], where)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def step_seconds(where: Path, epochs: float, flags: Sequence[str]) -> float:
    """The fastest step of a longer run: others on the machine only make steps slower."""
    (summary,) = json.loads(start([*COMMAND, *RUN, f"epochs={epochs}", "--json", *flags], where))
    return float(summary["step"]["min_s"])


def table(result: dict[str, Any]) -> str:
    first, goal = result["first_step_s"], result["goal"]
    lines = [f"start: the first step of {result['ranks']} ranks, seconds after the command"]
    lines.append(f"  torchrun script  {first['torchrun']['median']:8.2f} s")
    for kind, ratio in result["ratio"].items():
        lines.append(f"  {kind.replace('_', ' '):15}  {first[kind]['median']:8.2f} s, {ratio:.2f} times it")
    lines[-1] += f"    goal at most {goal['ratio']}"
    cached = result["cached_cpu_s"]["median"]
    lines.append(f"  nothing to run   {cached:8.2f} s of a core    goal at most {goal['cached_cpu_s']}")
    lines.append(f"  the fastest step of forked ranks: {result['step_ratio']:.3f} times that of fresh ones")
    return "\n".join(lines)
