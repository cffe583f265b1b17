"""Slurm's own commands: what is run, and what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from repro.core.errors import FaultError, InputError

LIMIT_S = 60
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL")


@dataclass(frozen=True)
class ArrayTask:
    """One task of an array as squeue shows it; `nodes` is empty and `reason` says why while it waits."""

    state: str
    nodes: str = ""
    reason: str = ""


def need(program: str) -> str:
    """The program's path; InputError where it is not there."""
    found = shutil.which(program)
    if not found:
        raise InputError(f"no {program} on PATH: `repro submit` and `repro status` run where Slurm's commands are")
    return found


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise FaultError(f"{Path(command[0]).name}: no answer within {LIMIT_S} s") from None


def _words(text: str) -> str:
    """Slurm's message in one line."""
    lines = [line.split("error: ", 1)[-1].strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines) or "no reason given"


def need_mpi(kind: str | None) -> None:
    """InputError where `srun --mpi=KIND` starts no ranks here: why, what to install, and what it can load instead.

    Tried, without a job: `srun --mpi=list` names plugins whose library is missing as well.
    """
    words = _refused_mpi(kind)
    if not words:
        return
    if "can not load PMIx library" in words:
        words += " (Debian, Ubuntu: apt-get install libpmix-dev, on every node)"
    listed = _run(need("srun"), "--mpi=list")
    text = listed.stdout + listed.stderr  # older versions of Slurm say it on stderr
    names = re.findall(r"(\w+)(?=,|$)", text.partition("...")[2], re.MULTILINE)
    loads = [name for name in names if not _refused_mpi(name)]
    raise InputError(
        f"srun --mpi={kind}: {words}; of `srun --mpi=list` these can be loaded: {', '.join(loads)} (site option mpi: "
        "pmix goes with Open MPI, pmi2 with MPICH); testbed.fabric=torch needs none of them"
    )


def _refused_mpi(kind: str | None) -> str:
    """srun's words where it cannot load this type of MPI; empty where it can, whatever else it may refuse."""
    said = _run(need("srun"), f"--mpi={kind}", "--test-only", "true").stderr
    return _words(said.partition("\n")[0]) if "Invalid MPI type" in said else ""


def submit(script: Path) -> str:
    """Hand a script to sbatch; the number of the job (of an array: of the whole). InputError with Slurm's own words."""
    done = _run(need("sbatch"), "--parsable", str(script))
    if done.returncode != 0:
        raise InputError(f"sbatch: {_words(done.stderr)}")
    return done.stdout.strip().split(";")[0]


def queued() -> dict[tuple[str, int], ArrayTask]:
    """This user's array tasks that wait or run, by array job and number; FaultError where Slurm does not answer."""
    done = _run(need("squeue"), "--noheader", "--array", f"--user={os.getuid()}", "--format=%F|%K|%T|%N|%r")
    if done.returncode != 0:
        raise FaultError(f"squeue: {_words(done.stderr)}")
    found = {}
    for line in done.stdout.splitlines():
        job, number, state, nodes, reason = line.strip().split("|", 4)
        if number.isdigit():
            found[job, int(number)] = ArrayTask(state, nodes, reason)
    return found


def ended(jobs: list[str]) -> dict[tuple[str, int], str]:
    """How tasks ended, as far as Slurm still knows: from its accounting, else from what the controller remembers."""
    found: dict[tuple[str, int], str] = {}
    for job in jobs:
        found |= _accounted(job) or _remembered(job)
    return found


def _accounted(job: str) -> dict[tuple[str, int], str]:
    if not shutil.which("sacct"):
        return {}
    done = _run("sacct", "--noheader", "--allocations", "--parsable2", f"--jobs={job}", "--format=JobID,State")
    found = {}
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        name, _, state = line.partition("|")
        number = name.partition("_")[2]
        if number.isdigit() and (word := state.split(" ")[0]) in ENDED:
            found[job, int(number)] = word
    return found


def _remembered(job: str) -> dict[tuple[str, int], str]:
    if not shutil.which("scontrol"):
        return {}
    found = {}
    for line in _run("scontrol", "--oneliner", "show", "job", job).stdout.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        number, state = fields.get("ArrayTaskId", ""), fields.get("JobState", "")
        if state in ENDED:
            for each in _numbers(number):
                found[job, each] = state
    return found


def _numbers(text: str) -> list[int]:
    """Slurm's short form of an array's tasks that were never started, as in 1-3,7%2."""
    found: list[int] = []
    for part in text.split("%")[0].split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            found += range(int(first), int(last or first) + 1)
    return found
