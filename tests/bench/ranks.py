"""Benchmarks whose sides are ranks of MPI: start a program on each rank, and read what rank 0 prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

from repro import launch
from repro.core.paths import PROJECT
from repro.experiment.config import compose
from repro.experiment.testbeds import testbed_of
from repro.fabric.real import mpi
from repro.launch.local import rank_environment
from repro.launch.pool import Pools

MARK = "@"  # before the line of the rows


def run_ranks(module: str, ranks: int, testbed: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a module's program (`print_rows`); InputError or NotHere for a testbed that cannot be had here."""
    chosen = testbed_of(compose("bench/collective", [f"testbed={testbed}"])["testbed"])
    program = ["-m", module, json.dumps(settings)]
    launcher = launch.launcher_for(chosen)
    with Pools(fresh=not launcher.pooled) as pools, pools.python(1, rank_environment(1)) as python:
        allocation = launcher.allocate(ranks, program, 1, python)
        made = subprocess.run(
            allocation.command, env=os.environ | allocation.environment, cwd=PROJECT, stdout=subprocess.PIPE, text=True,
            check=True,
        )  # fmt: skip
    (line,) = (line for line in made.stdout.splitlines() if line.startswith(MARK))
    return list(json.loads(line.removeprefix(MARK)))


def print_rows(measure: Callable[..., list[dict[str, Any]]]) -> None:
    """A rank's program: measure rows with the settings of `run_ranks`, and print them on rank 0."""
    torch.set_num_threads(1)
    fabric = mpi.start("cpu", "auto", 120.0)
    rows = measure(fabric, **json.loads(sys.argv[1]))
    if fabric.rank == 0:
        print(MARK + json.dumps(rows), flush=True)
    fabric.close()
