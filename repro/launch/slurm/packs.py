"""Small runs packed into one job, one after another, up to the site's budget of time (`pack_minutes`)."""

from __future__ import annotations

from collections.abc import Sequence

from repro.experiment.run import Run
from repro.launch.forecast import estimates, side_by_side
from repro.launch.slurm import resources
from repro.launch.slurm.resources import Resources
from repro.launch.slurm.site import Site
from repro.records import catalogue

Pack = list[Run]  # the runs of one job, in order


def arrays(runs: Sequence[Run], site: Site) -> list[tuple[Resources, list[Pack]]]:
    """The jobs of each array: an array is of runs that ask for the same."""
    groups: dict[Resources, list[Run]] = {}
    for run in runs:
        groups.setdefault(resources.of(run, site), []).append(run)
    return [(asked, packs(groups[asked], site)) for asked in sorted(groups)]


def packs(runs: Sequence[Run], site: Site) -> list[Pack]:
    """Runs that ask for the same, as jobs: without a budget a job for each, and one for all simulated ones.

    A run of whose kind nothing is recorded is a job of its own, as is one that is longer than the budget.
    """
    simulated = runs[0].simulated
    if not site.pack_minutes:
        return [list(runs)] if simulated else [[run] for run in runs]
    cores = site.simulations if simulated else 1
    seconds = [estimate.seconds for estimate in estimates(runs, catalogue.runs(runs[0].config.paper))]
    found: list[Pack] = []
    within: list[float] = []  # seconds of the runs of the last job, where more may join it
    for run, each in zip(runs, seconds, strict=True):
        if each is not None and within and side_by_side([*within, each], cores) <= 60 * site.pack_minutes:
            found[-1].append(run)
            within.append(each)
        else:
            found.append([run])
            within = [] if each is None else [each]
    return found
