"""`repro.show`: the runs of an experiment, with their states, and the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.core.choices import QUICK
from repro.core.errors import NotHere
from repro.experiment import config, inputs
from repro.experiment.arguments import Override, as_overrides, check_arguments
from repro.experiment.config import check_name
from repro.experiment.quoted import Parameter, quoted_with_places, read_hyperparameters
from repro.experiment.run import Run, Standing, count_states, finished_like
from repro.launch.plan import Plan, plan_runs
from repro.launch.pool import Pools


@dataclass(frozen=True)
class Shown:
    """An experiment under overrides, at a scale.

    runs             the runs that can run on this machine, with keys
    lacking          reasons of the others
    standing         numbers of runs that are done, stale and missing
    variants         their labels; `testbeds` and `seeds` are the other axes
    paper            the paper's numbers: column -> variant -> number
    places           column -> place of the numbers in the paper
    hyperparameters  each with the paper's value or another source
    config           the resolved configuration
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
        """The entry of `repro show --json`."""
        row = {"experiment": self.experiment, "runs": len(self.runs), "standing": self.standing._asdict()}
        return row | {
            "paper": self.paper,
            "places": self.places,
            "hyperparameters": [entry._asdict() for entry in self.hyperparameters],
            "config": self.config,
        }


def show(
    experiment: str,
    *overrides: Override,
    seeds: int | Sequence[int] | None = None,
    scale: str = QUICK,
    draws: int = 0,
) -> list[Shown]:
    """An experiment, or each of a paper's, under overrides (as for `repro.run`) at a scale; nothing runs.

    draws: if not 0, show sweeps of this number of draws. InputError as `repro.run`.
    """
    check_arguments(scale)
    if draws:
        inputs.check_draws(draws)
    names, words = config.experiment_names(check_name(experiment)), as_overrides(overrides, seeds)
    # before the runs are planned, because planning imports PyTorch
    composed = {name: config.compose_experiment(name, words, scale) for name in names}
    with Pools(fresh=True) as pools:  # one helper alone starts sooner than a server for many ranks
        planned = _planned(names, words, scale, draws, pools)
    finished = finished_like(planned.runs)
    shown = []
    for name, resolved in composed.items():
        runs = [run for run in planned.runs if run.experiment == name]
        paper = quoted_with_places(name)
        shown.append(
            Shown(
                experiment=name,
                runs=runs,
                lacking=[reason for left_out, _, reason in planned.left_out if left_out == name],
                standing=count_states(runs, finished),
                variants=[variant.label for variant in resolved.variants],
                testbeds=[*resolved.testbeds],
                seeds=len(resolved.seeds),
                paper={column: values for column, (values, _) in paper.items()},
                places={column: place for column, (_, place) in paper.items()},
                hyperparameters=read_hyperparameters(name, resolved.config),
                config=resolved.config,
            )
        )
    return shown


def _planned(names: Sequence[str], overrides: Sequence[str], scale: str, draws: int, pools: Pools) -> Plan:
    try:
        return plan_runs(names, overrides, scale, draws, pools, fetch=False)
    except NotHere as error:  # the only experiment cannot run here
        return Plan([], [[names[0], False, str(error)]])
