"""`repro run EXPERIMENT --draws [N]`: draw the assumed inputs of simulated runs, instead of running them once."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from repro.cli.options import ALLOT
from repro.core.errors import NotHere
from repro.experiment.draws import ITERATIONS
from repro.experiment.run import Run
from repro.launch.forecast import estimates, filled, side_by_side
from repro.launch.progress import duration
from repro.launch.sweeps import there
from repro.records import catalogue, sweep
from repro.records.identity import Identity

SIZES = (256, 64, 16)  # of which the largest is taken whose draws take no longer than
BUDGET_S = 8 * 3600 / 5  # of all cores together: five papers in a night


@dataclass(frozen=True)
class Sweeping:
    """A sweep to make; there: how many of its draws are; seconds: of a draw on one core, None where unknown."""

    run: Run
    there: int
    seconds: float | None

    @property
    def missing(self) -> int:
        return max(0, self.run.config.draws - self.there)

    def row(self) -> dict[str, Any]:
        """For other programs."""
        names = {"experiment": self.run.experiment, "run": self.run.label, "draws": self.run.config.draws}
        return names | {"drawn": self.there, "seconds": self.seconds, "file": str(self.run.folder / sweep.FILE)}


def of_runs(runs: Sequence[Run], draws: int, force: bool) -> list[Sweeping]:
    """The sweeps of runs, each of so many draws, or of as many as `SIZES` allots."""
    seconds = costs(runs)
    if draws == ALLOT:
        draws = allotted(sum(filled(seconds)))
    found = []
    for run, cost in zip(runs, seconds, strict=True):
        run.config = run.config.model_copy(update={"draws": draws})
        drawn = None if force else there(run)
        found.append(Sweeping(run, len(drawn.draws) if drawn else 0, cost))
    return found


def allotted(seconds: float) -> int:
    """How many draws there is time for, where one of every run takes so long."""
    return next((size for size in SIZES if size * seconds <= BUDGET_S), SIZES[-1])


def costs(runs: Sequence[Run]) -> list[float | None]:
    """Seconds of a draw of each: of those that were drawn as recorded, else of its run, cut as a draw is."""
    papers = dict.fromkeys(run.config.paper for run in runs)
    sweeps = [one for paper in papers for _, one in catalogue.sweeps(paper)]
    known = {_place(one.identity): one.record.wall.get("total_s") for one in sweeps}
    published = [found for paper in papers for found in catalogue.runs(paper)]
    forecast = [estimate.seconds for estimate in estimates(runs, published)]
    found: list[float | None] = []
    for run, whole in zip(runs, forecast, strict=True):
        drawn = known.get(_place(run.config.identity))
        part = min(1.0, ITERATIONS / run.iterations) if run.iterations else 1.0
        found.append(drawn or (None if whole is None else whole * part))
    return found


def _place(own: Identity) -> tuple[str | None, ...]:
    parts = own.testbed, own.model, own.dataset
    return own.experiment, own.variant, *(part.name if part else None for part in parts)


def text(sweeps: Sequence[Sweeping], what: str) -> str:
    """`pipedream: 12 variants x 16 draws, 3 variants done; the others take about 4 min`"""
    done = sum(not one.missing for one in sweeps)
    draws = max((one.run.config.draws for one in sweeps), default=0)
    said = f"{what}: {len(sweeps)} variants x {draws} draws, {done} variants done"
    left = [one for one in sweeps if one.missing]
    if not left or all(one.seconds is None for one in left):
        return said
    times = [cost * one.missing for one, cost in zip(left, filled([one.seconds for one in left]), strict=True)]
    return f"{said}; the others take about {duration(side_by_side(times, 1) / len(os.sched_getaffinity(0)))}"


def timed(runs: Sequence[Run], paper: str) -> list[Run]:
    """The runs that speak to a claim of a time, of which draws say something; all of a paper without claims."""
    from repro.answers.tables.results import speaks_of_time

    if (speaks := speaks_of_time(paper)) is None:
        return list(runs)
    kept = [run for run in runs if speaks(run.config.identity.plain())]
    for name in dict.fromkeys(run.experiment for run in runs if run not in kept):
        print(f"left out {name}: no claim of a time rests on it", file=sys.stderr)
    return kept


def run_draws(args: argparse.Namespace, runs: Sequence[Run]) -> list[Run]:
    """Make the draws that are missing, or say what they take."""
    from repro.experiment.config import paper_of
    from repro.launch.sweeps import run_sweeps

    paper = paper_of(args.experiment)
    if args.experiment == paper and not (runs := timed(runs, paper)):
        raise NotHere(f"--draws: no claim of a time rests on an experiment of {paper}")
    sweeps = of_runs(runs, args.draws, args.force)
    print(text(sweeps, args.experiment), file=sys.stderr)
    if not args.dry_run:
        run_sweeps(runs, args.force)
        sweeps = of_runs(runs, sweeps[0].run.config.draws, force=False)
    if args.json:
        print(json.dumps([one.row() for one in sweeps], indent=1))
    return list(runs)
