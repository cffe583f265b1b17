"""The plan of a command: its runs with their keys, from a cache or from a helper process, without importing PyTorch."""

from __future__ import annotations

import glob
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from repro.core import config_folders, errors, user_cache
from repro.core.errors import NotHere, some_of
from repro.core.fields import check_value
from repro.core.paths import PACKAGE
from repro.core.processes import safe_environment
from repro.core.registry import home_module
from repro.core.terminal import print_progress, report_waiting
from repro.core.without_pytorch import check_early, gpu_devices
from repro.experiment.run import Run
from repro.launch.local import rank_environment
from repro.launch.pool import Pools

# a plan depends on the sources of the package, but for these folders
NOT_READ = ("published", "reports", "site", "static", "testing", "faults")
SOURCES = (".py", ".yaml", ".csv", ".json", ".txt", ".lock")
VARIABLES = ("REPRO_", "XDG_", "CUDA_", "SLURM_", "HOME", "PYTHON", "MPI4PY_", "LD_LIBRARY_PATH")
OUTPUT_VARIABLES = ("REPRO_RESULTS", "REPRO_REPORTS")  # no run depends on where its results are written


@dataclass(frozen=True)
class Plan:
    """runs: with keys. left_out: experiments that this machine cannot run, or not completely: (name, whether some of
    its runs are planned, reason)."""

    runs: list[Run]
    left_out: list[list]


def plan_runs(
    names: Sequence[str],
    overrides: Sequence[str],
    scale: str,
    draws: int,
    pools: Pools,
    fetch: bool = True,
    together: bool = False,
) -> Plan:
    """The plan of these experiments; messages about their data go to stderr. Raises the errors of `runs_of`.

    If PyTorch is imported already, as in tests and notebooks, it is computed here, without cache and helper process.
    """
    request: dict[str, Any] = {"names": list(names), "overrides": list(overrides), "scale": scale, "draws": draws}
    request |= {"fetch": fetch, "together": together}
    if "torch" in sys.modules:
        from repro.experiment.requested import runs_of

        check_quoted(names)
        return Plan(*runs_of(**request))
    key = [request, plan_inputs()]
    if (answer := user_cache.load_cached("plan", key)) is not None:
        sys.stderr.write(answer["stderr"])
    else:
        announce = cache(lambda: print(f"planning the runs of {some_of(names)} ...", file=sys.stderr, flush=True))
        check_early(lambda: check_runs(names, overrides, scale, draws, fetch), announce)
        check_quoted(names)
        announce()
        answer = ask_helper(request, pools)
        if (watched := answer.pop("watched")) is not None:
            user_cache.save_cached("plan", key, answer, watched)
    return Plan([Run.of_plain(each) for each in answer["runs"]], answer["left_out"])


def check_quoted(names: Sequence[str]) -> None:
    """InputError for a printed number of an experiment that is not there: the end of the command shows it."""
    from repro.experiment.quoted import quoted_numbers

    for name in names:
        quoted_numbers(name)


def check_runs(names: Sequence[str], overrides: Sequence[str], scale: str, draws: int, fetch: bool) -> None:
    """InputError for a scale, override or value that cannot be, and for draws of runs that have none, as far as neither
    data nor models need to be read."""
    from repro.experiment import config, grid
    from repro.experiment.compose import Composer, value_of
    from repro.experiment.draws import check_draws, has_draws
    from repro.experiment.expand import check_profiles, expand_configs
    from repro.experiment.schema import RunConfig

    for name in names:
        configured, _ = config.read_choices(name, overrides)
        words = [each for override in configured for each in grid.split_values(override) or [override]]
        Composer(name, scale).check(words)
        for path, value in filter(None, map(value_of, words)):
            check_value(RunConfig, path, value)
    # the project's own files are right, which takes seconds of a paper's experiments
    others = config_folders.config_folders()[1:] or config_folders.experiment_files()
    for name in names if overrides or others else ():
        lacking: list[NotHere] = []
        checked: list[RunConfig] = []
        for each, _, _ in expand_configs(config.compose_experiment(name, overrides, scale), lacking):
            checked.append(each)
            if fetch:
                home_module("launcher").launcher_for(each.testbed).check_startable()
                home_module("dataset").check_obtainable(each)
        check_profiles(checked)
        if draws and checked and not any(map(has_draws, checked)):
            check_draws(checked[0])
        if lacking and not checked and len(names) == 1:
            raise lacking[0]


def ask_helper(request: dict[str, Any], pools: Pools) -> dict[str, Any]:
    """The helper's answer; raises its errors."""
    with pools.python(1, rank_environment(1)) as python:
        helper = subprocess.Popen(
            [python, "-m", "repro.launch.plan_process"],
            env=safe_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with helper:
            try:
                with report_waiting("planning", print_progress):  # most of it for PyTorch's import
                    text = helper.communicate(json.dumps(request))[0]
            except BaseException:
                helper.kill()
                raise
    if helper.returncode:
        raise errors.FaultError(f"the process that plans the runs ended with status {helper.returncode}")
    answer: dict[str, Any] = json.loads(text.splitlines()[-1])
    if "error" in answer:
        raise getattr(errors, answer["error"])(answer["message"])
    return answer


def plan_inputs() -> dict[str, Any]:
    """What runs and their keys depend on besides the request: code, configuration, packages, environment, machine."""
    variables = user_cache.select_variables(os.environ, VARIABLES)
    return {
        "code": user_cache.tree_digest([PACKAGE], SOURCES, NOT_READ),
        "packages": sorted(
            map(user_cache.path_state, (info for path in sys.path for info in glob.glob(f"{path}/*-info")))
        ),
        "python": [sys.executable, sys.version],
        "variables": {name: value for name, value in variables.items() if name not in OUTPUT_VARIABLES},
        "machine": [socket.gethostname(), platform.platform(), sorted(os.sched_getaffinity(0))],
        "gpus": gpu_devices(),
        "folder": os.getcwd(),
    }
