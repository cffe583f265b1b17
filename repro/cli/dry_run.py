"""`repro run --dry-run`: the states of runs, and the estimated time of the missing ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from repro.core.warnings import one_line
from repro.experiment.run import Run
from repro.experiment.standing import states
from repro.launch.forecast import Estimate, together
from repro.launch.progress import duration
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


def plans(runs: Sequence[Run], finished: Sequence[Found], each: Sequence[Estimate], force: bool) -> list[Plan]:
    """The plan of each run. each: its estimate."""
    return [
        Plan(run, HERE if run.finished and not force else PUBLISHED if state == "done" else state, estimate)
        for run, state, estimate in zip(runs, states(runs, finished), each, strict=True)
    ]


def rows(planned: Sequence[Plan]) -> list[dict[str, object]]:
    """A row for each run; seconds: its estimated duration, null if unknown."""
    return [
        {"experiment": one.run.experiment, "run": one.run.label, "state": one.state, **one.estimate._asdict()}
        for one in planned
    ]


def text(planned: Sequence[Plan]) -> str:
    """A line for each experiment, then the total and the sources of the estimates."""
    names = dict.fromkeys(one.run.experiment for one in planned)
    width = max(map(len, names), default=0)
    lines = [f"{'':{width}}  " + "  ".join(f"{state:>9}" for state in STATES) + "  to do takes about"]
    for name in names:
        own = [one for one in planned if one.run.experiment == name]
        counts = [sum(one.state == state for one in own) for state in STATES]
        lines.append(f"{name:{width}}  " + "  ".join(f"{count or '-':>9}" for count in counts) + f"  {takes(own)}")
    todo = [one for one in planned if one.state != HERE]
    cores = _cores()
    lines.append(f"{len(todo)} of {len(planned)} runs to do: {takes(planned)} on {cores} core{'s' * (cores != 1)}")
    whole = together([one.run for one in todo], [one.estimate for one in todo], cores)
    lines += [f"  {count} by the durations {by}" for by, count in whole.by.most_common()]
    lines += [f"  {count} recorded on {machine}" for machine, count in whole.machines.most_common()]
    return "\n".join(map(one_line, lines))  # records may come from others


def takes(planned: Sequence[Plan]) -> str:
    """Estimated time of the runs to do, for instance `12 min`."""
    todo = [one for one in planned if one.state != HERE]
    if not todo:
        return "-"
    if all(one.estimate.seconds is None for one in todo):
        return "unknown"
    return duration(together([one.run for one in todo], [one.estimate for one in todo], _cores()).seconds)


def _cores() -> int:
    return len(os.sched_getaffinity(0))
