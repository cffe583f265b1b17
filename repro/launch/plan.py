"""The plan of a command: its runs with their keys, from a cache or from a helper process, without importing PyTorch."""

from __future__ import annotations

import glob
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.core import errors, user_cache
from repro.core.declared_options import check_declared
from repro.core.errors import InputError
from repro.core.fields import check_fields, check_value
from repro.core.paths import PACKAGE
from repro.core.processes import safe_environment
from repro.core.registry import PLUGINS, home_module
from repro.experiment import files
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
        check_given(names, overrides, scale)
        check_quoted(names)
        answer = ask_helper(request, pools)
        if (watched := answer.pop("watched")) is not None:
            user_cache.save_cached("plan", key, answer, watched)
    return Plan([Run.of_plain(each) for each in answer["runs"]], answer["left_out"])


def check_quoted(names: Sequence[str]) -> None:
    """InputError for a printed number of an experiment that is not there: the end of the command shows it."""
    from repro.experiment.quoted import quoted_numbers

    for name in names:
        quoted_numbers(name)


def check_given(names: Sequence[str], overrides: Sequence[str], scale: str) -> None:
    """InputError for a scale or override that an experiment does not have, or a value that cannot be; without importing
    PyTorch, which takes seconds. What only a plugin's code knows is checked later."""
    from repro.experiment import config, expand, grid, plugins
    from repro.experiment.compose import Composer, value_of
    from repro.experiment.schema import RunConfig
    from repro.experiment.sources import is_made_by_code
    from repro.experiment.testbeds import kind_of
    from repro.launch import launcher_for

    for name in names:
        configured, _ = config.read_choices(name, overrides)
        base = grid.keep_single_values(configured)
        words = [each for override in configured for each in grid.split_values(override) or [override]]
        Composer(name, scale).check(words)
        values = list(filter(None, map(value_of, words)))
        for path, value in values:
            check_value(RunConfig, path, value)
        named = {group: plugin for group, _, plugin in (each.partition("=") for each in base) if group in PLUGINS}
        for path, value in values:
            check_option(named, path, value)
        if not overrides or any(is_made_by_code(*each.split("=", 1)) for each in base):  # which imports PyTorch
            continue
        composed = config.compose_experiment(name, overrides, scale)
        if not (composed.variants and composed.testbeds):
            continue
        # the errors of other points come later, in the same order
        testbed, conditions = next(iter(composed.testbeds.items()))
        point = expand.compose_point(composed.composer, composed.variants[0], testbed, conditions, composed.plain)
        kind_of(point["testbed"])
        chosen = {group: point[group]["name"] for group in PLUGINS}
        for path, value in values:
            check_option(chosen, path, value)
        checked = check_fields(RunConfig, point, context=plugins.CHECKED)
        launcher_for(checked.testbed)
        home_module("metric").check_metric(point["metric"], point["dataset"]["name"], point["targets"])
        home_module("dataset").check_entries(checked.data.root, point["dataset"])


def check_option(chosen: Mapping[str, str], path: str, value: object) -> None:
    """InputError for the value of an option that a plugin's source declares otherwise, and for a text where its default
    is a number; the rest its code checks. chosen: group -> plugin."""
    group, _, option = path.partition(".")
    if group not in chosen:
        return
    default = files.group_file(group, chosen[group]).get(option) if files.is_there(group, chosen[group]) else None
    if isinstance(default, int | float) and isinstance(value, str):
        raise InputError(f"{path}={value}: must be {'true or false' if isinstance(default, bool) else 'a number'}")
    if option.isidentifier():
        check_declared(group, chosen[group], {option: value})


def ask_helper(request: dict[str, Any], pools: Pools) -> dict[str, Any]:
    """The helper's answer; raises its errors."""
    with pools.python(1, rank_environment(1)) as python:
        helper = subprocess.run(
            [python, "-m", "repro.launch.plan_process"],
            input=json.dumps(request),
            env=safe_environment(),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    if helper.returncode:
        raise errors.FaultError(f"the process that plans the runs ended with status {helper.returncode}")
    answer: dict[str, Any] = json.loads(helper.stdout.splitlines()[-1])
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
        "gpus": sorted(glob.glob("/dev/nvidia[0-9]*")),
        "folder": os.getcwd(),
    }
