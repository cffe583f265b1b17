"""`repro.run`: execute an experiment's missing runs; also planning and messages for the command `repro run`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from repro.answers.mlflow.store import tracking_uri
from repro.core.choices import QUICK
from repro.core.errors import NotHere, ReproError
from repro.core.paths import reference_root
from repro.core.terminal import one_line
from repro.core.worker_processes import usable_cores
from repro.experiment.arguments import Override, as_overrides, check_arguments
from repro.experiment.config import check_name, experiment_names, is_file, paper_of
from repro.experiment.run import Run, Standing, State, finished_like, run_states
from repro.launch.forecast import Estimate, estimate_runs, total_duration
from repro.launch.plan import Plan, plan_runs
from repro.launch.pool import Pools
from repro.launch.progress import format_duration
from repro.launch.runner import check_results_folder, run_unfinished, split_refused
from repro.records import catalogue
from repro.records.record import Record
from repro.records.record_list import Records


def run(
    experiment: str,
    *overrides: Override,
    seeds: int | Sequence[int] | None = None,
    scale: str = QUICK,
    force: bool = False,
    fresh_ranks: bool = False,
    mlflow: bool = True,
) -> Records:
    """Execute the missing runs of an experiment or a paper; returns the records of all its finished runs.

    experiment   "PAPER/EXPERIMENT", "PAPER", or an experiment's file
    overrides    "key=value" or a dictionary: "strategy.K=3", {"strategy": ["pipe_sgd", "dsync"], "epochs": 3}
    seeds        their number, or a list of them; None: the experiment's
    scale        the experiment's size: quick, full or paper
    force        repeat finished runs
    fresh_ranks  start each rank as a new process
    mlflow       mirror the runs to MLflow

    Progress goes to stderr. Raises InputError for invalid input, before anything runs; FaultError for a failed run,
    after the others are done: the same call resumes.
    """
    check_arguments(scale, force=force, fresh_ranks=fresh_ranks, mlflow=mlflow)
    name, words = check_name(experiment), as_overrides(overrides, seeds)
    if mlflow:
        tracking_uri()  # InputError for a wrong one
    with Pools(fresh_ranks) as pools:
        job = prepare_job(name, words, scale, force, pools)
        print_durations(job)
        records, fault = job.execute(pools, mlflow)
    if fault:
        raise fault
    return Records(records)


@dataclass(frozen=True)
class Job:
    """Planned runs.

    todo      runs to execute
    refused   runs that diverged before, and run again only if forced
    states    the state of each run in `todo`
    expected  estimated time of each run in `todo`
    """

    planned: Plan
    todo: list[Run]
    refused: list[Run]
    states: Sequence[State]
    expected: Sequence[Estimate]
    force: bool

    def execute(self, pools: Pools, mlflow: bool) -> tuple[list[Record], ReproError | None]:
        """Execute the runs; returns the records of all finished runs, and the first fault of those that failed."""
        expected = {run.title: estimate.seconds for run, estimate in zip(self.todo, self.expected, strict=True)}
        return run_unfinished(self.planned.runs, self.force, mlflow, expected, pools)


def prepare_job(
    experiment: str,
    overrides: Sequence[str],
    scale: str,
    force: bool,
    pools: Pools,
    fetch: bool = True,
    unpublished: bool = False,
) -> Job:
    """Plan runs, and print their states on stderr. fetch: fetch their data too; unpublished: leave out those that the
    reference has, on whatever hardware. NotHere if none can run here."""
    planned = planned_here(experiment, overrides, scale, 0, pools, fetch)
    if unpublished:
        published = catalogue.runs(paper_of(experiment), reference_root())
        each = zip(planned.runs, run_states(planned.runs, published), strict=True)
        left = [run for run, state in each if state.name == "missing"]
        print(
            f"{experiment}: {len(planned.runs) - len(left)} of {len(planned.runs)} runs are published", file=sys.stderr
        )
        planned = Plan(left, planned.left_out)
    runs = planned.runs
    todo, refused = split_refused([run for run in runs if force or not run.finished], force)
    finished = finished_like(todo)
    expected = estimate_runs(todo, finished)
    states = run_states(todo, finished)
    stands = standing_text(len(runs) - len(todo) - len(refused), Standing.of(states), len(refused))
    print(f"{experiment} at scale {scale_text(runs, scale)}: {stands}", file=sys.stderr)
    for reason, count in Counter(state.reason for state in states if state.reason).items():
        print(one_line(f"{count} stale: {reason}"), file=sys.stderr)  # records may come from others
    if others := len(experiment_names(experiment)) - len(experiment_names(experiment, scale)):
        print(f"{others} more experiments run by name or at larger scales", file=sys.stderr)
    return Job(planned, todo, [run for run, _ in refused], states, expected, force)


def planned_here(experiment: str, overrides: Sequence[str], scale: str, draws: int, pools: Pools, fetch: bool) -> Plan:
    """`plan`, and print on stderr which runs cannot run here; NotHere if none can."""
    names = experiment_names(experiment, scale)
    check_results_folder()
    of_paper = experiment not in names and not is_file(experiment)
    planned = plan_runs(names, overrides, scale, draws, pools, fetch, together=of_paper)
    say_left_out(planned)
    if planned.left_out and not planned.runs:
        raise NotHere(planned.left_out[0][-1])
    return planned


def say_left_out(planned: Plan) -> None:
    """Print the experiments that cannot run here, with reasons."""
    for name, some, reason in planned.left_out:
        print(f"left out {'some of ' if some else ''}{name}: {reason}", file=sys.stderr)


def standing_text(done: int, todo: Standing, refused: int = 0) -> str:
    """`7 done, 14 to do: 5 published, 0 stale, 9 missing`. done: runs of the workspace; todo: the states of the others,
    which run here too if they are published; refused: how many diverged before."""
    states = f": {todo.done} published, {todo.stale} stale, {todo.missing} missing" if any(todo) else ""
    to_do = [f"{sum(todo)} to do{states}"] if any(todo) or not refused else []
    diverged = [f"{refused} diverged (--force runs them again)"] if refused else []
    return ", ".join([f"{done} done", *diverged, *to_do])


def duration_text(todo: Sequence[Run], expected: Sequence[Estimate]) -> str:
    """`12 min`, `at least 12 min` if that of some is unknown, `unknown`, or `-`. expected: the estimate of each run."""
    unknown = sum(estimate.seconds is None for estimate in expected)
    if unknown == len(todo):
        return "unknown" if todo else "-"
    seconds = total_duration(todo, expected, usable_cores()).seconds
    return f"{'at least ' if unknown else ''}{format_duration(seconds)}"


def duration_lines(job: Job, after: str = "") -> list[str]:
    """What a command has to do and how long it takes, and why that is unknown. after: what follows the runs."""
    cores, unknown = usable_cores(), sum(estimate.seconds is None for estimate in job.expected)
    time = f"{duration_text(job.todo, job.expected)} on {cores} core{'s' * (cores != 1)}{after}"
    lines = [f"{len(job.todo)} of {len(job.planned.runs)} runs to do: {time}"] if job.todo else []
    if unknown:
        known_later = "their first steps show the time left, and Ctrl-C keeps finished runs"
        lines.append(f"no recorded run resembles {unknown} of them; {known_later}")
    return lines


def print_durations(job: Job, after: str = "") -> None:
    """Print `duration_lines` on stderr."""
    for line in duration_lines(job, after):
        print(line, file=sys.stderr)


def scale_text(runs: Sequence[Run], scale: str) -> str:
    """The scale; and how many of the runs are recorded under another one, because they are the same there."""
    others = Counter(run.config.scale for run in runs if run.config.scale != scale)
    same = "; ".join(f"{count} of {len(runs)} runs are the same at scale {other}" for other, count in others.items())
    return f"{scale} ({same})" if same else scale
