"""Calls of Slurm's commands, and parsers of their output."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from repro.core.command_process import outside_environment
from repro.core.errors import FaultError, InputError

LIMIT_S = 60
ANSWER_S = 20  # limit of the question whether there is a Slurm; a busy controller takes seconds
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL")


@dataclass(frozen=True)
class ArrayTask:
    """One task of an array in squeue's output; while it waits, `nodes` is empty and `reason` says why."""

    state: str
    nodes: str = ""
    reason: str = ""


def need_program(program: str) -> str:
    """The program's path; InputError if it is not installed."""
    if path := shutil.which(program):
        return path
    raise InputError(f"no {program} on PATH: `repro submit` and `repro status` run where Slurm's commands are")


def _run(*command: str, limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=outside_environment(),
            capture_output=True,
            text=True,
            timeout=limit_s,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise FaultError(f"{Path(command[0]).name}: no answer within {limit_s} s") from None


def _one_line(text: str) -> str:
    """Slurm's message in one line."""
    lines = [line.split("error: ", 1)[-1].strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines) or "no reason given"


def need_mpi(kind: str | None) -> None:
    """InputError if `srun --mpi=KIND` cannot start ranks: the reason, what to install, and the types that do load.

    Tests each type without a job, because `srun --mpi=list` also names plugins whose library is missing.
    """
    reason = _mpi_error(kind)
    if not reason:
        return
    if "can not load PMIx library" in reason:
        reason += " (Debian, Ubuntu: apt-get install libpmix-dev, on every node)"
    listed = _run(need_program("srun"), "--mpi=list")
    text = listed.stdout + listed.stderr  # older versions of Slurm print it to stderr
    names = re.findall(r"(\w+)(?=,|$)", text.partition("...")[2], re.MULTILINE)
    valid = [name for name in names if not _mpi_error(name)]
    raise InputError(
        f"srun --mpi={kind}: {reason}; of `srun --mpi=list` these can be loaded: {', '.join(valid)} (site option mpi: "
        "pmix goes with Open MPI, pmi2 with MPICH); testbed.fabric=torch needs none of them"
    )


def _mpi_error(kind: str | None) -> str:
    """srun's error if it cannot load this type of MPI; empty if it can, even if it reports another error."""
    text = _run(need_program("srun"), f"--mpi={kind}", "--test-only", "true").stderr
    return _one_line(text.partition("\n")[0]) if "Invalid MPI type" in text else ""


def submit_script(script: Path) -> str:
    """Submit a script by sbatch; returns the (array) job's number. InputError with Slurm's message."""
    done = _run(need_program("sbatch"), "--parsable", str(script))
    if done.returncode != 0:
        raise InputError(f"sbatch: {_one_line(done.stderr)}")
    return done.stdout.strip().split(";")[0]


def need_answer() -> None:
    """InputError if no Slurm answers here."""
    try:
        queued_tasks(ANSWER_S)
    except FaultError as error:
        where = f"no Slurm answers on {platform.node()}; must be a cluster's login node (--dry-run needs no Slurm)"
        raise InputError(f"{where}; {error}") from None


def queued_tasks(limit_s: float = LIMIT_S) -> dict[tuple[str, int], ArrayTask]:
    """This user's waiting and running array tasks by job and task number; FaultError if Slurm does not answer."""
    options = "--noheader", "--array", f"--user={os.getuid()}", "--format=%F|%K|%T|%N|%r"
    done = _run(need_program("squeue"), *options, limit_s=limit_s)
    if done.returncode != 0:
        raise FaultError(f"squeue: {_one_line(done.stderr)}")
    fields = (line.strip().split("|", 4) for line in done.stdout.splitlines())
    return {(job, int(number)): ArrayTask(*task) for job, number, *task in fields if number.isdigit()}


def ended_tasks(job: str) -> dict[tuple[str, int], str]:
    """Final states of an array's tasks that Slurm still knows, from its accounting, else from the controller."""
    return _accounted(job) or _remembered(job)


def _accounted(job: str) -> dict[tuple[str, int], str]:
    if not shutil.which("sacct"):
        return {}
    done = _run("sacct", "--noheader", "--allocations", "--parsable2", f"--jobs={job}", "--format=JobID,State")
    states = {}
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        name, _, state = line.partition("|")
        number = name.partition("_")[2]
        if number.isdigit() and (word := state.split(" ")[0]) in ENDED:  # as in CANCELLED by 0
            states[job, int(number)] = word
    return states


def _remembered(job: str) -> dict[tuple[str, int], str]:
    if not shutil.which("scontrol"):
        return {}
    states: dict[tuple[str, int], str] = {}
    for line in _run("scontrol", "--oneliner", "show", "job", job).stdout.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if (state := fields.get("JobState")) in ENDED:
            states |= {(job, number): state for number in _numbers(fields.get("ArrayTaskId", ""))}
    return states


def _numbers(text: str) -> list[int]:
    """Task numbers in Slurm's short form, such as 1-3,7%2, of tasks that were never started."""
    numbers: list[int] = []
    for part in text.split("%")[0].split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            numbers += range(int(first), int(last or first) + 1)
    return numbers
