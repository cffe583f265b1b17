"""Checks at the start that all ranks of a run use the same libraries, code, data set and kind of device.

An outdated checkout, another environment or a missing data folder on one host would make the numbers meaningless. Ranks
exchange their facts as soon as the fabric has started, before they write anything. The error is one line with ranks,
hosts and both values. Host names appear only there, never in a record.
"""

from __future__ import annotations

import hashlib
import platform
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from glob import glob
from importlib import metadata, util
from pathlib import Path
from typing import Any

import torch

from repro import data
from repro.core.errors import InputError
from repro.experiment import needs
from repro.experiment.code_digest import PROJECT_PACKAGES, left_out
from repro.experiment.schema import RunConfig
from repro.experiment.versions import roots_of
from repro.fabric.base import Fabric
from repro.fabric.real.gpus import gpu_of, mps_runs, ranks_by_value, too_few_gpus, visible_gpus

NAMED = 6  # ranks that a message names; it counts the others


@dataclass(frozen=True)
class Facts:
    """Properties of one rank.

    host      the host's name
    versions  library -> version; a run's record (`repro.records.provenance`) has one version of each
    code      digest of the project's source, without modules that cannot change a number
    data      name and checksum of the data set; empty if the program reads none
    device    "cpu" or "cuda"; empty if the configuration has this rank alone compute on the CPU
    backend   the communication library: mpi, gloo, nccl
    gpu       id of the GPU on which this rank computes; None without
    gpus      ids of the visible GPUs
    mps       whether NVIDIA's Multi-Process Service runs for this rank
    problem   the message of an InputError that keeps this rank from taking part
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


def check_ranks(fabric: Fabric, config: RunConfig) -> RunConfig:
    """The configuration; for ranks on GPUs its hardware gets the entries `backend` and, if a GPU has several ranks,
    `gpu_shared_by` (the largest number on a GPU) and `gpu_shared_through` (MPS or time slices).

    InputError, the same on every rank, if ranks disagree. All ranks call it.
    """
    ranks = fabric.exchange(rank_facts(fabric, config))
    if complaint := find_disagreement(ranks):
        raise InputError(complaint)
    if len({rank.code for rank in ranks}) > 1:
        raise InputError(different_code(ranks, fabric.exchange(source_digests(config))))
    if not (sharing := most_on_a_gpu(ranks)):
        return config
    hardware: dict[str, Any] = {"backend": ranks[0].backend}
    if sharing > 1:
        through = "MPS" if all(rank.mps for rank in ranks if rank.gpu) else "time slices"
        hardware |= {"gpu_shared_by": sharing, "gpu_shared_through": through}
    return config.model_copy(update={"hardware": config.hardware | hardware})


def most_on_a_gpu(facts: Sequence[Facts]) -> int:
    """The largest number of ranks that share a GPU; 0 without GPUs."""
    return max(Counter((each.host, each.gpu) for each in facts if each.gpu).values(), default=0)


def rank_facts(fabric: Fabric, config: RunConfig) -> Facts:
    """This rank's facts. It loads the data set, which the program needs next anyway."""
    name, problem, gpu = "", None, None
    gpus: tuple[str, ...] = ()
    device = config.device_of(fabric.rank)
    by_design = device != config.wanted_device  # a server on the CPU, whose workers use GPUs
    try:
        gpu, gpus = gpu_of(device, fabric.rank), visible_gpus(device)
        if device == "cuda" and not gpus:
            raise InputError(f"device=cuda: torch {torch.__version__} sees no working GPU here; use device=cpu")
        if config.numerics.gpus_alone and not gpus and not by_design:
            raise InputError(f"{config.numerics.gpus_alone}: requires a GPU, and there is none here; leave it out")
        if reads_data(config):
            dataset = data.dataset_for(config)
            name = f"{dataset.name} ({dataset.checksum[:12]})"
    except InputError as error:
        problem = str(error)
    return Facts(
        host=socket.gethostname(),
        versions=library_versions(),
        code=hashlib.sha256(repr(sorted(source_digests(config).items())).encode()).hexdigest()[:12],
        data=name,
        device="" if by_design else "cuda" if gpu else "cpu",
        backend=getattr(fabric, "backend", fabric.name),
        gpu=gpu,
        gpus=gpus,
        mps=gpu is not None and mps_runs(),
        problem=problem,
    )


def find_disagreement(facts: Sequence[Facts]) -> str | None:
    """The first difference between ranks as one line, or None; `different_code` compares the code."""
    for rank, each in enumerate(facts):
        if each.problem:
            return f"{ranks_and_hosts([rank], facts)}: {each.problem}"
    checks = [
        (
            f"have different versions of {library}",
            [each.versions.get(library, "none") for each in facts],
            "use one environment for all hosts",
        )
        for library in dict.fromkeys(name for each in facts for name in each.versions)
    ]
    checks += [
        (
            "see different data",
            [each.data for each in facts],
            "put the same files on every host (`repro data list` shows where they are), or set dataset.standin=always",
        ),
        ("compute on different devices", [each.device for each in facts], "set device=cpu, or give every host a GPU"),
    ]
    for difference, values, remedy in checks:
        groups = ranks_by_value(values)
        groups.pop("", None)  # agrees with every value
        if len(groups) > 1:
            values_of_ranks = "; ".join(
                f"{value} on {ranks_and_hosts(ranks, facts)}" for value, ranks in groups.items()
            )
            return f"the ranks {difference}: {values_of_ranks}; {remedy}"
    return too_few_gpus(facts) if facts[0].backend == "nccl" else None


def different_code(facts: Sequence[Facts], sources: Sequence[dict[str, str]]) -> str:
    """The message for ranks with different code, with the first files that differ. sources: each `source_digests`."""
    groups = ranks_by_value([each.code for each in facts])
    files = sorted({name for source in sources for name in source if len({s.get(name) for s in sources}) > 1})
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    versions = "; ".join(f"{code} on {ranks_and_hosts(ranks, facts)}" for code, ranks in groups.items())
    return (
        f"the ranks run different code of this project: {versions} ({', '.join(files[:3])}{more}); update the checkouts"
    )


def ranks_and_hosts(ranks: Sequence[int], facts: Sequence[Any]) -> str:
    """Ranks and their hosts, as in "ranks 1, 2 (hosts a, b)"."""

    def some(items: Sequence[Any]) -> str:
        more = f" and {len(items) - NAMED} more" if len(items) > NAMED else ""
        return ", ".join(str(item) for item in items[:NAMED]) + more

    hosts = list(dict.fromkeys(facts[rank].host for rank in ranks))
    many, places = "s" * (len(ranks) > 1), "s" * (len(hosts) > 1)
    return f"rank{many} {some(ranks)} (host{places} {some(hosts)})"


def library_versions() -> dict[str, str]:
    """Versions of the libraries that this rank has loaded."""
    loaded = {"Python": platform.python_version(), "torch": str(torch.__version__), "numpy": metadata.version("numpy")}
    if torch.version.cuda:
        loaded["CUDA"] = torch.version.cuda
    if mpi := sys.modules.get("mpi4py.MPI"):
        loaded["MPI"] = mpi.Get_library_version().split(",")[0].strip("\0\n ")
    return loaded


def reads_data(config: RunConfig) -> bool:
    """Whether the program reads samples: training does, and a probe whose module imports `repro.data` as `data`."""
    program = config.program
    return program == needs.TRAIN or getattr(needs.PROBES.load(program), "data", None) is data


def source_digests(config: RunConfig) -> dict[str, str]:
    """module -> digest, of the project's modules on this rank and of other packages that the program is from."""
    packages = {*PROJECT_PACKAGES, *(name.split(".")[0] for name in roots_of(config))}
    return _digests(tuple(sorted(packages)))


@cache
def _digests(packages: tuple[str, ...]) -> dict[str, str]:
    digests = {}
    for package in packages:
        spec = util.find_spec(package)
        folders = [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
        # glob, unlike `Path.rglob`, follows links to folders, such as `repro.strategies` in a checkout
        paths = [(Path(path), each.parent) for each in folders for path in glob(f"{each}/**/*.py", recursive=True)]
        if spec and spec.origin and not folders:
            paths.append((Path(spec.origin), Path(spec.origin).parent))
        for path, base in paths:
            name = path.relative_to(base).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
            if not left_out(name):
                digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return digests
