"""The runs of a command: of one experiment, or of a paper's experiments at a scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repro.core.errors import NotHere
from repro.experiment import config
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.experiment.key import Keys
from repro.experiment.override_keys import key_of
from repro.experiment.run import Run


def runs_of(
    names: Sequence[str], overrides: Sequence[str], scale: str, draws: int, fetch: bool, together: bool
) -> tuple[list[Run], list[list]]:
    """The runs of experiments, with keys; and a list [experiment, whether some of its runs are here, reason] for each
    that this machine cannot execute as a whole.

    fetch: fetch data, and check models against them, because the runs will start. together: the experiments are a
    paper's, of which only the runs of its job at the scale count (`select_job`). NotHere if the only experiment has no
    run.
    """
    runs: list[Run] = []
    left_out: list[list] = []
    keys = Keys()
    fetched: set[tuple[Any, ...]] = set()
    for name in names:
        lacking: list[NotHere] = []
        try:
            runs_here = expand_runs(name, overrides, scale, lacking, draws)
            if together:
                runs_here = select_job(runs_here, scale, overrides)
            if fetch:
                identify_runs(runs_here, fetched=fetched)
            else:
                for run in runs_here:
                    keys.assign(run)
        except NotHere as error:
            lacking.append(error)
            runs_here = []
        if lacking and not runs_here and len(names) == 1:
            raise lacking[0]
        left_out += [[name, bool(runs_here), reason] for reason in dict.fromkeys(map(str, lacking))]
        runs += runs_here
    return runs, left_out


def select_job(runs: Sequence[Run], scale: str, overrides: Sequence[str]) -> list[Run]:
    """The runs of an experiment in its paper's job at a scale; factors that the user overrides do not count."""
    overridden = set(map(key_of, overrides))

    def is_part(run: Run) -> bool:
        choices = config.find_job(run.experiment, scale) or [{}]
        kept = [{name: values for name, values in each.items() if name not in overridden} for each in choices]
        return config.is_in_job(kept, run.config.factors, run.testbed)

    return [run for run in runs if is_part(run)]
