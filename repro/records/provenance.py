"""The provenance of a result (commit, versions, command), and the hardware of the machine.

Summaries are committed, so nothing here names a host, a user or a folder.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from repro.core.credentials import redact_credentials
from repro.core.paths import PROJECT
from repro.records import source

# name -> pattern of the text before its version
MPI = {
    "Open MPI": r"(?:Open MPI|OpenRTE)\)?\s+v?",
    "Intel MPI": r"Intel\(R\) MPI Library\D*",
    "MPICH": r"(?:MPICH|HYDRA)\D*",
}
PACKAGES = ("torch", "numpy", "mpi4py", "mlflow")  # read from their metadata: importing mlflow alone takes 3 seconds


def provenance() -> dict[str, Any]:
    """{commit, dirty, versions, started_at (UTC, ISO 8601), command}; unknown entries are None.

    dirty: whether the project has uncommitted changes, apart from results and reports, which runs write. Both come from
    the manifest of an unchanged copy of the checkout (`repro.records.source`), else from git.
    """
    copied = source.standing()
    commit, dirty = copied if copied[1] is False else _by_git() or copied
    return {
        "commit": commit,
        "dirty": dirty,
        "versions": versions(),
        "started_at": utc_now(),
        "command": command(sys.argv),
    }


def attempt(key: str, made_by: Mapping[str, Any], hardware: Mapping[str, Any]) -> dict[str, Any]:
    """What distinguishes the attempts of a run that was cut off: {key, commit, dirty, torch, hardware}.

    made_by: as `provenance`; key: of the run under that code.
    """
    torch = (made_by.get("versions") or {}).get("torch")
    by = {"key": key, "commit": made_by.get("commit"), "dirty": made_by.get("dirty")}
    return by | {"torch": torch, "hardware": hardware.get("class")}


def clean(attempts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether committed code computed all attempts: each is of a commit without changes, or of the same code (key) as
    one that is."""
    committed = {attempt.get("key") for attempt in attempts if attempt.get("dirty") is False}
    return bool(attempts) and all(attempt.get("key") in committed for attempt in attempts)


def _by_git() -> tuple[str, bool | None] | None:
    git = "git", "-c", f"safe.directory={PROJECT}", "-C", str(PROJECT)  # in a container its owner may differ
    if (commit := _output(*git, "rev-parse", "HEAD")) is None:
        return None
    changes = _output(*git, "status", "--porcelain", "--", ".", ":!results", ":!reports/out")
    return commit, None if changes is None else bool(changes)


def utc_now() -> str:
    """The time to the second, as in 2026-01-31T12:00:00+00:00."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str | None]:
    packages = {package: _package_version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **packages, "mpi": _mpi_version()}


def command(arguments: Sequence[str]) -> str:
    """The command line, with every absolute path replaced by its last component, and without credentials."""
    return " ".join(_shorten(redact_credentials(argument)) for argument in arguments)


def hardware(network: str, device: str = "auto") -> dict[str, Any]:
    """{class, cpu, cores, memory_gb, gpu, network}: the machine, as far as it affects measured times.

    network: the testbed's description of the links. device: as in the configuration; "cpu" ignores GPUs. gpu is
    "NAME x COUNT" or None; class is a short, stable name such as "cpu-2core-intel-xeon-processor" or "gpu-1x-h200".
    """
    cpu, cores = cpu_name(), len(os.sched_getaffinity(0))
    gpus = [] if device == "cpu" else _gpus()
    if gpus:
        kind = f"gpu-{len(gpus)}x-{_slug(re.sub(r'(?i)nvidia|geforce|tesla', ' ', gpus[0]))}"
    else:
        kind = f"cpu-{cores}core-{_slug(cpu)}"
    return {
        "class": kind,
        "cpu": cpu,
        "cores": cores,
        "memory_gb": _memory_gb(),
        "gpu": f"{gpus[0]} x {len(gpus)}" if gpus else None,
        "network": network,
    }


def _shorten(argument: str) -> str:
    # a path starts the argument or follows a separator (as in key=/a/b or -I/a/b); ~name has a user's name
    return re.sub(r"(?<![\w.])(?:~[^/\s=:,]*)?/+(?:[^/\s=:,]+/+)*([^/\s=:,]+)/*", r"\1", argument)


def _output(*command: str) -> str | None:
    """The output of a command, or None if it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _package_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _mpi_version() -> str | None:
    """A version such as "Open MPI 4.1.4", without the build host's name that the library's text may have."""
    if loaded := sys.modules.get("mpi4py.MPI"):
        text = loaded.Get_library_version()
    else:
        text = _output("mpirun", "--version") or ""
    for name, before in MPI.items():
        if match := re.search(rf"{before}(\d[\w.]*)", text):
            return f"{name} {match[1]}"
    return None


def cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = match[1] if match else platform.processor() or platform.machine()
    name = re.sub(r"\((?:R|TM|C)\)", " ", name, flags=re.IGNORECASE)
    name = re.sub(r"@.*|\bCPU\b", " ", name)
    return " ".join(name.split())


def _memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _gpus() -> list[str]:
    """Names of the GPUs that torch can use; none with a CPU build of torch or without a driver.

    From nvidia-smi instead of torch, so that the command, which does not import torch, and the ranks agree.
    """
    if (_package_version("torch") or "+cpu").endswith("+cpu"):
        return []
    text = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or ""
    names = [line.strip() for line in text.splitlines() if line.strip()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return names
    chosen = [entry.strip() for entry in visible.split(",") if entry.strip() not in ("", "-1")]
    # entries are indices or ids of devices (GPU-..., MIG-...); for an id the first name is used
    return [names[int(entry)] if entry.isdigit() and int(entry) < len(names) else names[0] for entry in chosen if names]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
