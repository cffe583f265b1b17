"""`repro.run`: do an experiment's missing runs. The command `repro run` prints more around it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from repro.api import DEFAULT_SCALE, named
from repro.core.errors import NotHere, ReproError
from repro.experiment.config import experiment_names, is_file, paper_of
from repro.experiment.run import Run
from repro.experiment.standing import Standing, standing, together
from repro.launch.forecast import Estimate, estimates
from repro.launch.plan import Plan, plan
from repro.launch.pool import Pools
from repro.launch.runner import check_results_folder, run_unfinished
from repro.records import catalogue
from repro.records.catalogue import Found
from repro.records.record import Record


def run(
    experiment: str,
    *overrides: str,
    scale: str = DEFAULT_SCALE,
    force: bool = False,
    fresh_ranks: bool = False,
    mlflow: bool = True,
) -> list[Record]:
    """Do the missing runs of an experiment, or of a paper; the records of all its finished runs.

    experiment   "PAPER/EXPERIMENT", "PAPER", or an experiment's file
    overrides    "key=value", for instance "strategy=pipe_sgd", "strategy.K=3", "seeds=5"
    scale        the experiment's size: quick, full or paper
    force        repeat finished runs
    fresh_ranks  start each rank as a new process
    mlflow       mirror the runs to MLflow

    Progress goes to stderr. Raises InputError for what cannot be run, before anything runs; FaultError where a run
    failed, once the others are done: the same call resumes.
    """
    with Pools(fresh_ranks) as pools:
        records, fault = prepare(named(experiment), overrides, scale, force, pools).carry_out(pools, mlflow)
    if fault:
        raise fault
    return records


@dataclass(frozen=True)
class Job:
    """Planned runs.

    left      those that are to be done
    finished  the paper's finished runs, wherever they are
    expected  how long each run that is left takes
    """

    planned: Plan
    left: list[Run]
    finished: Sequence[Found]
    expected: Sequence[Estimate]
    force: bool

    def carry_out(self, pools: Pools, mlflow: bool) -> tuple[list[Record], ReproError | None]:
        """The records of all finished runs, and the first fault of those that failed."""
        known = {run.title: estimate.seconds for run, estimate in zip(self.left, self.expected, strict=True)}
        return run_unfinished(self.planned.runs, self.force, mlflow, known, pools)


def prepare(
    experiment: str, overrides: Sequence[str], scale: str, force: bool, pools: Pools, fetch: bool = True
) -> Job:
    """Plan runs, and say on stderr how they stand; fetch: have their data here too.

    NotHere where this machine can do none of them.
    """
    planned = planned_here(experiment, overrides, scale, 0, pools, fetch)
    runs = planned.runs
    left = [run for run in runs if force or not fetch or not run.finished]
    finished = catalogue.runs(paper_of(experiment)) if left else []  # imports pandas
    stands = together([Standing(done=len(runs) - len(left)), standing(left, finished)])
    print(f"{experiment} at scale {scales(runs, scale)}: {stands}", file=sys.stderr)
    if others := len(experiment_names(experiment)) - len(experiment_names(experiment, scale)):
        print(f"{others} more experiments run by name or at larger scales", file=sys.stderr)
    return Job(planned, left, finished, estimates(left, finished), force)


def planned_here(experiment: str, overrides: Sequence[str], scale: str, draws: int, pools: Pools, fetch: bool) -> Plan:
    """`plan`, and on stderr what this machine cannot run; NotHere where that is all."""
    check_results_folder()
    names = experiment_names(experiment, scale)
    found = plan(
        names, overrides, scale, draws, pools, fetch, together=experiment not in names and not is_file(experiment)
    )
    say_left_out(found)
    if found.left_out and not found.runs:
        raise NotHere(found.left_out[0][-1])
    return found


def say_left_out(planned: Plan) -> None:
    for name, some, reason in planned.left_out:
        print(f"left out {'some of ' if some else ''}{name}: {reason}", file=sys.stderr)


def scales(runs: Sequence[Run], asked: str) -> str:
    """The sizes that the runs' records have: a run with the values of `full` has that, whatever was asked for."""
    return " and ".join(dict.fromkeys(run.config.scale for run in runs)) or asked
