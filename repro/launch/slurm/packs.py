"""Packing of small runs into one job, in sequence, up to the site's time budget (`pack_minutes`)."""

from __future__ import annotations

from collections.abc import Sequence

from repro.experiment.run import Run
from repro.launch.forecast import estimate_runs, side_by_side
from repro.launch.slurm import resources
from repro.launch.slurm.resources import Resources
from repro.launch.slurm.site import Site
from repro.records import catalogue

Pack = list[Run]  # the runs of one job, in order


def job_arrays(runs: Sequence[Run], site: Site) -> list[tuple[Resources, list[Pack]]]:
    """The jobs of each array; an array has the runs with the same resources."""
    groups: dict[Resources, list[Run]] = {}
    for run in runs:
        groups.setdefault(resources.resources_for(run, site), []).append(run)
    return [(needed, pack_runs(groups[needed], site)) for needed in sorted(groups)]


def pack_runs(runs: Sequence[Run], site: Site) -> list[Pack]:
    """Jobs for runs with the same resources: without a budget one per run, and one for all simulated runs.

    A run of unknown duration, or longer than the budget, has its own job.
    """
    simulated = runs[0].simulated
    if not site.pack_minutes:
        return [list(runs)] if simulated else [[run] for run in runs]
    cores = site.simulations if simulated else 1
    seconds = [estimate.seconds for estimate in estimate_runs(runs, catalogue.runs(runs[0].config.paper))]
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
