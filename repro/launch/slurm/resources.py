"""The resources that runs request from Slurm, and the packing of small runs into one job (`pack_minutes`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro import launch
from repro.experiment import needs
from repro.experiment.needs import needs_of
from repro.experiment.run import Run, finished_like
from repro.launch.forecast import estimate_runs, side_by_side
from repro.launch.slurm.site import Site
from repro.launch.srun import node_layout, without_nccl


@dataclass(frozen=True, order=True)
class Resources:
    """The resources of one job; runs with equal resources share an array.

    ranks     per run; 1 if simulated, since virtual ranks share a process
    gpus      sbatch's option for GPUs and its value; empty: none
    messages  the library of messages between ranks, and why not NCCL
    """

    ranks: int
    simulated: bool
    nodes: int
    tasks: int
    per_node: int
    cpus: int
    gpus: tuple[()] | tuple[str, str]
    messages: str


def resources_for(run: Run, site: Site) -> Resources:
    """The resources of a run; for a simulated one those of `site.simulations` runs side by side."""
    config = run.config
    testbed, gpu = config.testbed, config.wanted_device != "cpu"
    if config.simulated:
        return Resources(1, True, 1, 1, 1, site.simulations, (site.gpus(1) if gpu else None) or (), "simulated")
    assert testbed.kind == "measured"
    ranks = needs.count_ranks(config)
    place = node_layout(site, ranks, testbed.gpu_ranks if gpu else 0)
    gpus = site.gpus(place.on_gpus, every_rank=place.on_gpus == ranks) if place.on_gpus else None
    library = message_library(run, site, place.on_gpus == ranks)
    return Resources(ranks, False, place.nodes, place.tasks, place.per_node, site.cpus_per_rank, gpus or (), library)


def message_library(run: Run, site: Site, every_rank: bool) -> str:
    """The library, as in `MPI, through host memory: its strategy needs tags`; every_rank: whether all have GPUs."""
    config = run.config
    if launch.launcher_for(config.testbed).fabric == "torch":
        own_gpu = every_rank and site.on_a_node(needs.count_ranks(config)) <= site.gpus_per_node
        return "NCCL" if own_gpu and config.testbed.backend != "gloo" else "gloo"
    if not site.gpus_per_node or config.wanted_device == "cpu":
        return "MPI"
    reason = without_nccl(site, needs_of(config)) or "testbed.fabric=mpi"
    return f"MPI, through host memory: {reason}"


Pack = list[Run]  # the runs of one job, in order


def job_arrays(runs: Sequence[Run], site: Site) -> list[tuple[Resources, list[Pack]]]:
    """The jobs of each array; an array has the runs with the same resources."""
    groups: dict[Resources, list[Run]] = {}
    for run in runs:
        groups.setdefault(resources_for(run, site), []).append(run)
    return [(needed, pack_runs(groups[needed], site)) for needed in sorted(groups)]


def pack_runs(runs: Sequence[Run], site: Site) -> list[Pack]:
    """Jobs for runs with the same resources: without a budget one per run, and one for all simulated runs.

    A run of unknown duration counts as the longest of similar ones (`Estimate.most_s`); without any, or if it is longer
    than the budget, it has its own job.
    """
    simulated = runs[0].simulated
    if not site.pack_minutes:
        return [list(runs)] if simulated else [[run] for run in runs]
    cores = site.simulations if simulated else 1
    estimates = estimate_runs(runs, finished_like(runs))
    seconds = [each.most_s if each.seconds is None else each.seconds for each in estimates]
    jobs: list[Pack] = []
    last: list[float] = []  # seconds of the last job's runs; empty if unknown
    for run, each in zip(runs, seconds, strict=True):
        if each is not None and last and side_by_side([*last, each], cores) <= 60 * site.pack_minutes:
            jobs[-1].append(run)
            last.append(each)
        else:
            jobs.append([run])
            last = [] if each is None else [each]
    return jobs
