"""`repro.show`: what an experiment would run, and how its runs stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.api import DEFAULT_SCALE, named
from repro.core.errors import NotHere
from repro.experiment import config, grid
from repro.experiment.compose import Composer
from repro.experiment.hyperparameters import Parameter, parameters
from repro.experiment.quoted import printed
from repro.experiment.run import Run
from repro.experiment.standing import Standing, standing
from repro.launch.plan import Plan, plan
from repro.launch.pool import Pools
from repro.records import catalogue


@dataclass(frozen=True)
class Shown:
    """An experiment under some overrides, at a scale.

    runs             the runs that this machine can do, with their keys
    lacking          why it cannot do others
    standing         how many of the runs are done, stale and missing
    variants         their labels; `testbeds` and `seeds` are the other axes
    paper            what the paper prints: column -> variant -> number
    places           column -> where it prints that, and of what
    hyperparameters  each beside the paper's own, or with what it is from
    config           the resolved configuration, as a file would have it
    """

    experiment: str
    runs: list[Run]
    lacking: list[str]
    standing: Standing
    variants: list[str]
    testbeds: list[str]
    seeds: int
    paper: Mapping[str, Mapping[str, float]]
    places: Mapping[str, str]
    hyperparameters: list[Parameter]
    config: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        """What `repro show --json` prints."""
        row = {"experiment": self.experiment, "runs": len(self.runs), "standing": self.standing._asdict()}
        return row | {
            "paper": self.paper,
            "places": self.places,
            "hyperparameters": [one._asdict() for one in self.hyperparameters],
            "config": self.config,
        }


def show(experiment: str, *overrides: str, scale: str = DEFAULT_SCALE, draws: int = 0) -> list[Shown]:
    """An experiment, or each of a paper's, under overrides (`key=value`) at a scale; nothing runs.

    draws: as of `repro.run`. InputError for what `repro.run` would refuse.
    """
    names = config.experiment_names(named(experiment))
    given = {name: config.choices(name, overrides) for name in names}
    # before the runs, which take PyTorch
    resolved = {name: Composer(name, scale).compose(grid.split(own)[0]) for name, (own, _) in given.items()}
    with Pools() as pools:
        planned = _planned(names, overrides, scale, draws, pools)
    found: dict[str, list[Run]] = {name: [] for name in names}
    for run in planned.runs:
        found[run.experiment].append(run)
    finished = [run for paper in dict.fromkeys(name.split("/")[0] for name in names) for run in catalogue.runs(paper)]
    shown = []
    for name, runs in found.items():
        own, (setting, chosen) = resolved[name], given[name]
        variants, testbeds = config.axes(own, setting)
        paper = printed(name)
        shown.append(
            Shown(
                experiment=name,
                runs=runs,
                lacking=[reason for left_out, _, reason in planned.left_out if left_out == name],
                standing=standing(runs, finished),
                variants=[variant.label for variant in grid.left(variants, chosen)],
                testbeds=[*testbeds],
                seeds=len(grid.seeds_of(grid.split(setting)[1], own["seed"], own["seeds"])),
                paper={column: values for column, (values, _) in paper.items()},
                places={column: place for column, (_, place) in paper.items()},
                hyperparameters=parameters(name, own),
                config=own,
            )
        )
    return shown


def _planned(names: Sequence[str], overrides: Sequence[str], scale: str, draws: int, pools: Pools) -> Plan:
    try:
        return plan(names, overrides, scale, draws, pools, fetch=False)
    except NotHere as error:  # of the only experiment
        return Plan([], [[names[0], False, str(error)]])
