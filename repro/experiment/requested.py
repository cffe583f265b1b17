"""The runs that a command is about: of one experiment, or of all of a paper's at a scale."""

from __future__ import annotations

from collections.abc import Sequence

from repro.core.errors import NotHere
from repro.experiment import config
from repro.experiment.expand import expand
from repro.experiment.identify import identify
from repro.experiment.key import Keys
from repro.experiment.run import Run


def runs_of(
    names: Sequence[str], overrides: Sequence[str], scale: str, draws: int, fetch: bool, together: bool
) -> tuple[list[Run], list[list]]:
    """The runs of experiments; and each that this machine cannot do, or not in all: its name, whether it has some, why.

    fetch: whether they are to be run, so that data are fetched where they can be, and what goes with them is checked.
    together: whether these are a paper's, which takes of each the part that belongs to its scale (`part`). Where one
    experiment alone is asked for and cannot be done at all, NotHere is raised.
    """
    runs: list[Run] = []
    left_out: list[list] = []
    keys = Keys()
    for name in names:
        lacking: list[NotHere] = []
        try:
            own = expand(name, overrides, scale, lacking, draws)
            if together:
                own = part(own, scale, overrides)
            if fetch:
                identify(own)
            else:
                for run in own:
                    keys.give(run)
        except NotHere as error:
            lacking.append(error)
            own = []
        if lacking and not own and len(names) == 1:
            raise lacking[0]
        left_out += [[name, bool(own), reason] for reason in dict.fromkeys(map(str, lacking))]
        runs += own
    return runs, left_out


def part(runs: Sequence[Run], scale: str, overrides: Sequence[str]) -> list[Run]:
    """The runs of an experiment that belong to its paper at a scale; factors that the user overrides do not count."""
    overridden = {override.partition("=")[0] for override in overrides}

    def taken(run: Run) -> bool:
        chosen = config.job(run.experiment, scale) or [{}]
        left = [{name: values for name, values in each.items() if name not in overridden} for each in chosen]
        return config.belongs(left, run.config.factors, run.testbed)

    return [run for run in runs if taken(run)]
