"""`repro` in a separate process, for tests of its output, files and exit status.

The process is forked from one that has imported PyTorch and MLflow, which would otherwise take most of its time, and so
are its ranks on this machine (`tests.support.ranks`). Tests of the command's start, imports and signals use
`subprocess` instead.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.ranks import pool
from tests.support.records import summaries
from tests.support.waiting import LIMIT_S

# 2 workers on the digits: 30 iterations of 60 ms or less
QUICK = ["dataset.standin=always", "workers=2", "batch=40", "epochs=0.857", "eval_every=0.28", "checkpoint_every=0.143"]
EXPERIMENT = "pipesgd/fig4-mnist"

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["tests.support.preloaded"])


def repro(
    results: Path, *arguments: str, fault: str = "", tracking_uri: str = "", timeout: float = LIMIT_S
) -> subprocess.CompletedProcess:
    """Run one command with its own results folder; TimeoutExpired if it does not end."""
    environment = os.environ | {"REPRO_RESULTS": str(results), "REPRO_REPORTS": str(results.parent / "reports")}
    environment.pop("MLFLOW_TRACKING_URI", None)
    if tracking_uri:
        environment["MLFLOW_TRACKING_URI"] = tracking_uri
    if fault:
        environment["REPRO_FAULT"] = fault
    return forked("repro", *arguments, environment=environment, timeout=timeout)


def forked(
    module: str, *arguments: str, environment: Mapping[str, str], folder: Path | None = None, timeout: float = LIMIT_S
) -> subprocess.CompletedProcess:
    """`python -m MODULE ARGUMENTS` in a folder, by default this one."""
    with tempfile.TemporaryDirectory() as temporary:
        outputs = [Path(temporary) / name for name in ("stdout", "stderr")]
        own = module, arguments, dict(environment), folder or os.getcwd(), outputs, pool().python
        process = FORKED.Process(target=_module, args=own)
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([module, *arguments], timeout)
        stdout, stderr = (path.read_text() for path in outputs)
        return subprocess.CompletedProcess([module, *arguments], process.exitcode, stdout, stderr)


def _module(
    module: str,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    folder: str | Path,
    outputs: list[Path],
    python: str,
) -> None:
    for number, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [str(folder), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    from repro.launch.pool import Pools

    Pools.python = lambda *_: contextlib.nullcontext(python)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def run(results: Path, *overrides: str, fault: str = "", flags: tuple[str, ...] = ("--no-mlflow",)):
    """`repro run` of a small experiment."""
    return repro(results, "run", EXPERIMENT, "--json", *flags, *QUICK, *overrides, fault=fault)


def summary(done: subprocess.CompletedProcess) -> dict:
    """The summary of a command's only run."""
    assert done.returncode == 0, done.stderr
    (only,) = summaries(done.stdout)
    return only


def killed_and_resumed(place: Path, *overrides: str) -> tuple[dict, dict]:
    """The summaries of an undisturbed run, and of one that resumes after rank 1 was killed in step 13, which is
    reported in a line; checks that their weights are equal."""
    whole = summary(run(place / "whole", *overrides))
    killed = run(place / "killed", *overrides, fault="kill:1:13")
    assert killed.returncode == 1 and "rank 1" in killed.stderr and "Traceback" not in killed.stderr
    again = summary(run(place / "killed", *overrides, fault="kill:1:13"))
    assert again["wall"]["resumes"] == 1 and again["weights_sha256"] == whole["weights_sha256"]
    return whole, again


def refused(done: subprocess.CompletedProcess, *words: str) -> None:
    """Check that the command ended with status 2 and one line that contains these words."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.startswith("repro: error:")]
    assert len(lines) == 1 and "Traceback" not in done.stderr
    for word in words:
        assert word in lines[0], lines[0]
