"""The table of accuracies: what was trained, with what budget, seeds and tuning, and what follows for a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from repro.answers.claims.claims import Claim
from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.claims.evidence import runs_read
from repro.answers.claims.stats import DASH, format_number
from repro.answers.figures.looks import display_name
from repro.answers.figures.specification import Experiment
from repro.answers.pages import wording
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.reference import quoted
from repro.answers.tables.results import Results
from repro.answers.tables.runs import Runs
from repro.records.record import Found
from repro.records.run_columns import SHARES


def accuracy_rows(results: Results, judged: Sequence[ClaimVerdict], numbers: Mapping[str, int]) -> list[dict[str, str]]:
    """A row for each claim about accuracy that is decided, or that is a headline and open.

    judged: the deciding verdicts; numbers: claim -> its number on the paper's pages.
    """
    shown = [each for each in judged if each.verdict.decided or each.claim.headline]
    return [_row(results, each, numbers[each.claim.id]) for each in shown]


def _row(results: Results, judged: ClaimVerdict, number: int) -> dict[str, str]:
    claim = judged.claim
    group = results.evaluator.runs_for(claim, judged.kind)
    runs = [run for run in runs_read(claim, group) if run.identity.trains] if group else []
    trained = [run for run in runs if run.identity.experiment == claim.experiment] or runs
    if variants := judged.evidence.outcome.variants:
        trained = [run for run in trained if run.label in variants]
    spec = results.experiments.get(claim.experiment, Experiment())
    return {
        "claim": Markdown(f"C{number}. {claim.text}"),
        "workload": describe_workload(trained),
        "budget": describe_budget(trained),
        "seeds": describe_seeds(judged),
        "rate": spec.tuned or "not tuned",
        "compared with": describe_other_side(claim, group, spec, results.paper),
        "paper": Markdown(claim.paper.shown),
        "ours": wording.ours(judged),
        "verdict": judged.verdict.words,
    }


def describe_workload(runs: Sequence[Found]) -> str:
    """`ResNet-8 on a part of CIFAR-10, 8 workers`"""
    workers = sorted({run.identity.workers for run in runs})
    counted = f"{' or '.join(map(str, workers))} worker{'s' if workers != [1] else ''}"
    models = dict.fromkeys(
        " on ".join(dict.fromkeys((display_name(run.model_name), display_name(run.dataset.name))))  # a problem is both
        for run in runs
        if run.dataset
    )
    return f"{' and '.join(models)}, {counted}" if runs else DASH


def describe_budget(runs: Sequence[Found]) -> str:
    """`20 epochs, 6,000 iterations of 100 examples`"""
    if not runs:
        return DASH
    epochs = _ends([float(run.identity.epochs or 0) for run in runs])
    steps, batch = (
        _ends(numbers) for numbers in ([run.training.iterations for run in runs], [run.identity.batch for run in runs])
    )
    return f"{epochs} epochs, {steps} iterations of {batch} examples"


def _ends(numbers: Sequence[float]) -> str:
    """`80 to 320`, or the only number."""
    return " to ".join(dict.fromkeys(f"{end:,g}" for end in (min(numbers), max(numbers))))


def describe_seeds(judged: ClaimVerdict) -> str:
    """`one seed`, `5 pairs`: both sides of a difference have the same seeds."""
    value, seeds = judged.claim.value, judged.seeds
    paired_runs = value is not None and value.verb in ("difference", "ratio")
    return "one seed" if seeds == 1 else f"{seeds} {'pairs' if paired_runs else 'seeds'}"


def describe_other_side(claim: Claim, group: Runs | None, spec: Experiment, paper: str) -> str:
    """`naive: 0.1650; none printed`: what a difference subtracts or a ratio divides by, and by how much it misses the
    printed number."""
    value = claim.value
    if value is None or group is None or not isinstance(value.over, dict):
        return DASH
    rows = group.matching(value.table, value.over)
    every = group.listed(value.table, "final") if rows else []
    finals = [float(every[row]) for row in rows if every[row] is not None]
    if not finals:
        return DASH
    ours, share = median(finals), group.first.identity.metric in SHARES
    variants = group.listed(value.table, "variant")
    names = " or ".join(map(display_name, dict.fromkeys(variants[row] for row in rows)))
    text = f"{names}: {f'{ours:.4f}' if share else format_number(ours)}"
    if not spec.baseline:
        return f"{text}; none printed"
    printed = quoted(paper).text(*spec.baseline)
    missed = f"{100 * (ours - float(printed)):+.2f} points" if share else f"{100 * (ours / float(printed) - 1):+.1f} %"
    return f"{text}, {missed} of the paper's {printed}"
