"""`repro run --dry-run`: the states of runs, and the estimated time of the missing ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from repro.core.terminal import one_line
from repro.experiment.run import Run
from repro.experiment.standing import states
from repro.launch.forecast import Estimate, total_duration
from repro.launch.progress import format_duration
from repro.records.catalogue import Found

HERE, PUBLISHED = "here", "published"
# here: finished in this workspace. Others would run: the same run is in the reference, an older one exists, or none
STATES = (HERE, PUBLISHED, "stale", "missing")


@dataclass(frozen=True)
class Plan:
    """A run, its state, and its estimated duration."""

    run: Run
    state: str
    estimate: Estimate


def plan_runs(runs: Sequence[Run], finished: Sequence[Found], each: Sequence[Estimate], force: bool) -> list[Plan]:
    """The plan of each run. each: its estimate."""
    return [
        Plan(run, HERE if run.finished and not force else PUBLISHED if state == "done" else state, estimate)
        for run, state, estimate in zip(runs, states(runs, finished), each, strict=True)
    ]


def plan_rows(planned: Sequence[Plan]) -> list[dict[str, object]]:
    """A row for each run; seconds: its estimated duration, null if unknown."""
    return [
        {"experiment": plan.run.experiment, "run": plan.run.label, "state": plan.state, **plan.estimate._asdict()}
        for plan in planned
    ]


def format_plans(planned: Sequence[Plan]) -> str:
    """A line for each experiment, then the total and the sources of the estimates."""
    names = dict.fromkeys(plan.run.experiment for plan in planned)
    width = max(map(len, names), default=0)
    lines = [f"{'':{width}}  " + "  ".join(f"{state:>9}" for state in STATES) + "  to do takes about"]
    for name in names:
        plans = [plan for plan in planned if plan.run.experiment == name]
        counts = [sum(plan.state == state for plan in plans) for state in STATES]
        lines.append(
            f"{name:{width}}  " + "  ".join(f"{count or '-':>9}" for count in counts) + f"  {estimated_time(plans)}"
        )
    todo = [plan for plan in planned if plan.state != HERE]
    cores = _cores()
    lines.append(
        f"{len(todo)} of {len(planned)} runs to do: {estimated_time(planned)} on {cores} core{'s' * (cores != 1)}"
    )
    whole = total_duration([plan.run for plan in todo], [plan.estimate for plan in todo], cores)
    lines += [f"  {count} by the durations {by}" for by, count in whole.by.most_common()]
    lines += [f"  {count} recorded on {machine}" for machine, count in whole.machines.most_common()]
    return "\n".join(map(one_line, lines))  # records may come from others


def estimated_time(planned: Sequence[Plan]) -> str:
    """Estimated time of the runs to do, for instance `12 min`."""
    todo = [plan for plan in planned if plan.state != HERE]
    if not todo:
        return "-"
    if all(plan.estimate.seconds is None for plan in todo):
        return "unknown"
    return format_duration(
        total_duration([plan.run for plan in todo], [plan.estimate for plan in todo], _cores()).seconds
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0))
