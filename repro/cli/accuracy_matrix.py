"""The matrix of accuracies in docs/accuracy.md: what each experiment decides, what ran for it, and what is left.

A row an experiment on which claims about accuracy rest. Seeds and margin are the claims', the choice of the rate is
that of the page's experiment, hours are those of the runs in the reference; left is an entry of the GPU queue, or a
night of CPUs. `repro verify` checks the table; with `--write` it writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from repro.answers.claims.claims import Claim
from repro.answers.claims.decisive import choose_verdict, group_by_claim
from repro.answers.claims.stats import DASH, format_number
from repro.answers.figures.specification import Experiment
from repro.answers.tables.results import Results
from repro.cli.workloads import markdown_table
from repro.launch import queue
from repro.records.kinds import SIMULATED
from repro.records.record import Found

NAME, PAGE = "matrix", "docs/accuracy.md"
HEAD = ("experiment", "claims, decided", "seeds", "margin", "learning rate", "ran", "core-hours", "GPU-hours", "left")


class Row(NamedTuple):
    """A row of the table: the cells of its first and last columns, and the hours of its runs between them."""

    before: tuple[str, ...]
    hours: tuple[float, float]
    left: str


def matrix_table(rows: Sequence[Row]) -> str:
    """The table in Markdown, with the sum of the hours in its last row."""
    cells = [(*row.before, *map(format_hours, row.hours), row.left) for row in rows]
    total = [sum(row.hours[which] for row in rows) for which in (0, 1)]
    return markdown_table([HEAD, *cells, ("all", *[""] * 5, *map(format_hours, total), "")])


def matrix_rows(results: Results) -> list[Row]:
    """A row for each experiment of a paper on which claims about accuracy rest."""
    entries = queue.read_queue()
    verdicts = group_by_claim(results.verdicts)
    decided = {claim for claim, of in verdicts.items() if choose_verdict(of).verdict.decided}
    trainings = [run for run in results.runs.records.values() if run.identity.trains]
    scored = [run for run in trainings if run.training.final.get(run.identity.metric) is not None]
    return [
        _row(
            results,
            experiment,
            claims,
            decided,
            [run for run in scored if run.identity.experiment == experiment],
            entries,
        )
        for experiment, claims in tested_claims(results.file.claims).items()
    ]


def tested_claims(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """experiment -> its claims about accuracy that can be tested here."""
    of_experiment: dict[str, list[Claim]] = {}
    for claim in claims:
        if claim.about == "accuracy" and claim.value is not None:
            of_experiment.setdefault(claim.experiment, []).append(claim)
    return of_experiment


def _row(
    results: Results, experiment: str, claims: Sequence[Claim], decided: set[str], runs: Sequence[Found],
    entries: Sequence[queue.Entry],
) -> Row:  # fmt: skip
    paper, spec = results.paper, results.experiments.get(experiment, Experiment())
    seeds = dict.fromkeys(str(most_seeds(claim)) for claim in claims)
    margins = dict.fromkeys(
        format_points(-100 * low) for claim in claims if claim.no_loss and (low := claim.widened[0])
    )
    open_claims = {f"{paper}/{claim.id}" for claim in claims if claim.id not in decided}
    queued = [entry.name for entry in entries if open_claims & {*entry.decides}]
    command = f"`repro run {paper}/{experiment} --scale paper`"
    before = (
        f"{paper}/{experiment}",
        f"{len(claims)}, {len(claims) - len(open_claims)}",
        " or ".join(seeds),
        " or ".join(margins) or DASH,
        spec.tuned or "not tuned",
        describe_runs(runs),
    )
    left = f"queue: {', '.join(queued)}" if queued else command
    return Row(before, hours_of(runs), left if open_claims else DASH)


def most_seeds(claim: Claim) -> int:
    """The seeds that a verdict on a claim needs, of any kind of number."""
    needed = claim.minimum_seeds
    return needed if isinstance(needed, int) else max(needed.values(), default=1)


def describe_runs(runs: Sequence[Found]) -> str:
    """`6 runs of 12 epochs, 1 or 3 seeds`: the seeds of each variant"""
    if not runs:
        return "never"
    epochs = " or ".join(dict.fromkeys(format_number(float(run.identity.epochs or 0), 2) for run in runs))
    seeds: dict[str, set[int]] = {}
    for run in runs:
        seeds.setdefault(run.identity.variant, set()).add(run.identity.seed)
    counts = sorted({len(each) for each in seeds.values()})
    each = f"{' or '.join(map(str, counts))} seed{'s' * (counts[-1] > 1)}"
    return f"{len(runs)} run{'s' * (len(runs) > 1)} of {epochs} epochs, {each}"


def hours_of(runs: Iterable[Found]) -> tuple[float, float]:
    """(core-hours, GPU-hours) of runs: hours on the wall, times the cores that their ranks could use at once."""
    cores = gpus = 0.0
    for run in runs:
        hours, machine = run.record.wall.get("total_s", 0.0) / 3600, run.record.hardware
        if machine.more.get("gpu"):
            gpus += hours
        else:
            ranks = 1 if run.kind == SIMULATED else run.record.ranks or 1
            cores += hours * min(ranks, machine.cores or ranks)
    return cores, gpus


def format_points(points: float) -> str:
    return f"{points:g} point{'s' * (points != 1)}"


def format_hours(hours: float) -> str:
    return DASH if not hours else f"{hours:.2f}" if hours < 1 else format_number(hours, 2)
