"""Program `first_step`: how soon a command does what it is for.

The first step of a 2-rank run, beside that of a torchrun script which imports the same; the CPU time of a command that
has nothing to run; the steps of forked ranks beside those of fresh ones. Everything is started as a user would, in
turns. The clock that ranks read their intervals from is the machine's, so that the end of the first step is as long
after the start of the command as its trace says.
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

from repro import probes
from repro.core.fields import Count, Model, Positive
from repro.core.paths import PROJECT
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared import torchrun_script
from repro.probes.shared.options import needs_one, needs_real_time
from repro.probes.shared.stopwatch import spread
from repro.records.events import read_events

RANKS = 2
COMMAND = [sys.executable, "-m", "repro", "run", "pipesgd/fig4-mnist", "--no-mlflow", "--no-report"]
RUN = ["strategy=dsync", "testbed=here", "dataset.standin=always", f"workers={RANKS}", "batch=40", "trace_steps=1"]
ONE_STEP = [*RUN, "epochs=0.001"]
SCRIPT = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS), "-m", torchrun_script.__name__]
OF_A_RANK = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "TORCHELASTIC_", "MASTER_", "LOCAL_", "GROUP_", "ROLE_", "REPRO_")
OF_A_RANK_TOO = ("RANK", "WORLD_SIZE", "PYTHON_EXEC")  # of the environment, what would make another command part of it


class Options(Model):
    """epochs: of the longer runs, whose fastest steps are compared."""

    turns: Count
    epochs: Positive


def check(config: RunConfig) -> None:
    """InputError for more workers than it uses, and where time is modelled."""
    needs_one(config, "starts commands of its own")
    needs_real_time(config)


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """All of it."""
    probe = config.probe
    taken: dict[str, list[float]] = {}
    probes.start(fabric, probe.turns)
    with tempfile.TemporaryDirectory() as holder:
        for turn in range(probe.turns):
            where = Path(holder) / str(turn)  # a cache that is new knows no plan; the second command finds the first's
            for what, work in measurements(where, probe.epochs).items():
                taken.setdefault(what, []).append(work())
                probes.progress(fabric, turn)
    rows = [{"what": what, "seconds": spread(times)} for what, times in taken.items()]
    medians = {what: spread(times)["median"] for what, times in taken.items()}
    line = ", ".join(f"{what} {seconds:.3g} s" for what, seconds in medians.items())
    return probes.Finding({"rows": rows}, medians, line)


def measurements(where: Path, epochs: float) -> dict[str, Callable[[], float]]:
    """Of a turn, in this order."""
    return {
        "torchrun": lambda: script(where),
        "planned anew": lambda: first_step(where, []),
        "planned before": lambda: first_step(where, ["--force"]),
        "nothing to run": lambda: cpu_seconds(where),
        "forked": lambda: step_seconds(where, epochs, ["--force"]),
        "fresh": lambda: step_seconds(where, epochs, ["--force", "--fresh-ranks"]),
    }


def start(words: Sequence[str], where: Path) -> str:
    """What a command prints, its results and cache in a folder of its own."""
    outside = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(OF_A_RANK) and name not in OF_A_RANK_TOO
    }
    own = {"REPRO_RESULTS": str(where / "results"), "XDG_CACHE_HOME": str(where / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=outside | own, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True)
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
    (record,) = json.loads(start([*COMMAND, *RUN, f"epochs={epochs}", "--json", *flags], where))
    return float(record["result"]["step"]["min_s"])
