"""`repro` in a separate process, for tests of its output, files and exit status.

The process is forked from the pool of tests (`tests.support.ranks`), which has imported PyTorch and MLflow: that would
otherwise take most of its time. So are its ranks on this machine. Tests of the command's start and imports start it
themselves.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.ranks import pool
from tests.support.records import summaries
from tests.support.waiting import LIMIT_S

# 2 workers on the digits: 30 iterations of 60 ms or less
QUICK = ["dataset.standin=always", "workers=2", "batch=40", "epochs=0.857", "eval_every=0.28", "checkpoint_every=0.143"]
EXPERIMENT = "pipesgd/fig4-mnist"


def forked_command(module: str, *arguments: str) -> list[str]:
    """`python -m MODULE ARGUMENTS`, forked with its ranks from the pool of tests; passes on signals and statuses."""
    return [pool().python, "-m", "tests.support.forked_command", pool().python, module, *arguments]


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
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):  # a process that is left may hold them
        done = subprocess.run(
            forked_command(module, *arguments),
            env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=timeout,
        )  # fmt: skip
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess([module, *arguments], done.returncode, out.read(), err.read())


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
