"""Whether the ranks of a run agree: one torch, one project, one data set, one kind of device. Checked at the start.

An outdated checkout, another environment or a missing data folder on one host would make the numbers meaningless. The
ranks exchange their facts right after their fabric has started, before any of them writes anything, and refuse in one
line that names ranks, hosts and both values.
(Host names go into that line only: no summary holds them.)
"""

from __future__ import annotations

import hashlib
import platform
import socket
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from glob import glob
from importlib import metadata, util
from pathlib import Path
from typing import Any

import torch

from repro import data
from repro.core.errors import InputError
from repro.experiment import programs
from repro.experiment.cache_key import PROJECT_PACKAGES, left_out
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.fabric.real.gpus import gpu_of, grouped, mps_runs, too_few_gpus, visible_gpus

NAMED = 6  # ranks that a line names; it counts the others


@dataclass(frozen=True)
class Facts:
    """What one rank is.

    host      its name
    versions  what: version; a run's record (`repro.records.provenance`) names one of each
    code      digest of the project's source, without what cannot change a number
    data      name and checksum of the data set; empty where the program reads none
    device    "cpu" or "cuda"; empty where the configuration has this rank alone compute on the CPU
    backend   what tensors travel by: mpi, gloo, nccl
    gpu       of the GPU that this rank computes on its id; None without
    gpus      ids of the GPUs that it sees
    mps       whether NVIDIA's Multi-Process Service runs for it
    problem   what keeps this rank from taking part, in the words of its InputError
    """

    host: str
    versions: dict[str, str]
    code: str
    data: str
    device: str
    backend: str
    gpu: str | None = None
    gpus: tuple[str, ...] = ()
    mps: bool = False
    problem: str | None = None


def check(fabric: Fabric, config: RunConfig) -> RunConfig:
    """The configuration, whose hardware says of ranks on GPUs what their tensors travel by (`backend`), and how many
    compute on the fullest GPU if these are several (`gpu_shared_by`), and whether their kernels run side by side there
    or take turns (`gpu_shared_through`).

    InputError, the same on every rank, where ranks do not go together. All call it."""
    everybody = fabric.exchange(facts(fabric, config))
    if complaint := disagreement(everybody):
        raise InputError(complaint)
    if len({each.code for each in everybody}) > 1:
        raise InputError(different_code(everybody, fabric.exchange(source_digests(config))))
    if not (shared := most_on_a_gpu(everybody)):
        return config
    found: dict[str, Any] = {"backend": everybody[0].backend}
    if shared > 1:
        through = "MPS" if all(each.mps for each in everybody if each.gpu) else "time slices"
        found |= {"gpu_shared_by": shared, "gpu_shared_through": through}
    return config.model_copy(update={"hardware": config.hardware | found})


def most_on_a_gpu(everybody: Sequence[Facts]) -> int:
    """How many ranks the GPU has that most ranks compute on; 0 where none has a GPU."""
    return max(Counter((each.host, each.gpu) for each in everybody if each.gpu).values(), default=0)


def facts(fabric: Fabric, config: RunConfig) -> Facts:
    """This rank's facts. Takes a few ms, and reads the data set, which the program would do next."""
    name, problem, gpu = "", None, None
    gpus: tuple[str, ...] = ()
    device = config.device_of(fabric.rank)
    by_design = device != config.wanted_device  # a server's rank, on the CPU beside workers on GPUs
    try:
        gpu, gpus = gpu_of(device, fabric.rank), visible_gpus(device)
        if device == "cuda" and not gpus:
            raise InputError(f"device=cuda: torch {torch.__version__} sees no working GPU here; use device=cpu")
        if config.numerics.gpus_alone and not gpus and not by_design:
            raise InputError(f"{config.numerics.gpus_alone}: is of GPUs, and there is none here; leave it out")
        if reads_data(config):
            dataset = data.of(config)
            name = f"{dataset.name} ({dataset.checksum[:12]})"
    except InputError as error:
        problem = str(error)
    return Facts(
        host=socket.gethostname(),
        versions=versions(),
        code=hashlib.sha256(repr(sorted(source_digests(config).items())).encode()).hexdigest()[:12],
        data=name,
        device="" if by_design else "cuda" if gpu else "cpu",
        backend=getattr(fabric, "backend", fabric.name),
        gpu=gpu,
        gpus=gpus,
        mps=gpu is not None and mps_runs(),
        problem=problem,
    )


def disagreement(everybody: Sequence[Facts]) -> str | None:
    """One line on what does not go together, or None; code is left to `different_code`."""

    def differ(what: str, value: Callable[[Facts], str], remedy: str) -> str | None:
        groups = grouped([value(each) for each in everybody])
        groups.pop("", None)  # goes with every other
        if len(groups) < 2:
            return None
        shown = "; ".join(f"{one} on {named(ranks, everybody)}" for one, ranks in groups.items())
        return f"the ranks {what}: {shown}; {remedy}"

    for rank, each in enumerate(everybody):
        if each.problem:
            return f"{named([rank], everybody)}: {each.problem}"
    for package in dict.fromkeys(name for each in everybody for name in each.versions):
        complaint = differ(
            f"have different versions of {package}",
            lambda each: each.versions.get(package, "none"),  # noqa: B023 - called at once
            "use one environment for all hosts",
        )
        if complaint:
            return complaint
    return (
        differ(
            "see different data",
            lambda each: each.data,
            "put the same files on every host (`repro data list` shows what is found where), or dataset.standin=always",
        )
        or differ("compute on different devices", lambda each: each.device, "set device=cpu, or give every host a GPU")
        or (too_few_gpus(everybody) if everybody[0].backend == "nccl" else None)
    )


def different_code(everybody: Sequence[Facts], sources: Sequence[dict[str, str]]) -> str:
    """The line where the project differs: which copies, and which files of them. sources: `source_digests` of each."""
    groups = grouped([each.code for each in everybody])
    files = sorted({name for source in sources for name in source if len({s.get(name) for s in sources}) > 1})
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    shown = "; ".join(f"{code} on {named(ranks, everybody)}" for code, ranks in groups.items())
    return f"the ranks run different code of this project: {shown} ({', '.join(files[:3])}{more}); update the checkouts"


def named(ranks: Sequence[int], everybody: Sequence[Any]) -> str:
    """As in "ranks 1, 2 (hosts a, b)"."""

    def some(items: Sequence[Any]) -> str:
        more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
        return ", ".join(str(item) for item in items[:NAMED]) + more

    hosts = list(dict.fromkeys(everybody[rank].host for rank in ranks))
    many, places = "s" * (len(ranks) > 1), "s" * (len(hosts) > 1)
    return f"rank{many} {some(ranks)} (host{places} {some(hosts)})"


def versions() -> dict[str, str]:
    """Versions of the libraries that this rank has loaded."""
    found = {"Python": platform.python_version(), "torch": str(torch.__version__), "numpy": metadata.version("numpy")}
    if torch.version.cuda:
        found["CUDA"] = torch.version.cuda
    if mpi := sys.modules.get("mpi4py.MPI"):
        found["MPI"] = mpi.Get_library_version().split(",")[0].strip("\0\n ")
    return found


def reads_data(config: RunConfig) -> bool:
    """Whether the program looks at samples: training does, and a probe whose module uses `repro.data`."""
    program = config.program
    return program == programs.TRAIN or getattr(programs.PROBES.load(program), "data", None) is data


def source_digests(config: RunConfig) -> dict[str, str]:
    """{file: digest} of the project's modules on this rank, and of those that the program comes from elsewhere."""
    packages = {*PROJECT_PACKAGES, *(name.split(".")[0] for name in programs.modules(config))}
    return _digests(tuple(sorted(packages)))


@cache
def _digests(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for package in packages:
        spec = util.find_spec(package)
        places = [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
        # glob, unlike `Path.rglob`, goes into linked folders, as `repro.strategies` is in a checkout
        paths = [(Path(path), place.parent) for place in places for path in glob(f"{place}/**/*.py", recursive=True)]
        if spec and spec.origin and not places:
            paths.append((Path(spec.origin), Path(spec.origin).parent))
        for path, base in paths:
            name = path.relative_to(base).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
            if not left_out(name):
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return found
