"""Pipe-SGD's Figure 4, row AlexNet, from inputs with bounds to verdicts on one short page: what all pages become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.reporting import claims as claim_files
from repro.reporting import figures as figure_files
from repro.reporting.claims import Claim
from repro.reporting.evaluate import BASE, Error, Judged, judge_all
from repro.reports.figure4_alexnet import frames
from repro.reports.page import Files, not_run
from repro.reports.render import template, write_page
from repro.reporting.stats import DASH, number

if TYPE_CHECKING:
    import pandas as pd

PAGE = "figure4_alexnet"
KINDS = ("emulated", "simulated")
HERE = Path(__file__).parent


def build(results: Path | None, out: Path) -> tuple[list[Path], list[Path], str]:
    """(pages, other files, a line for the overview): the page under `out`."""
    files, steps, errors = Files(PAGE, out), frames.steps(results), frames.errors(results)
    claims = claim_files.read(HERE / "claims.yaml")
    if lacking := missing(steps, errors):
        line = not_run(lacking)
        text = template("figure4_alexnet.md.j2", missing=line)
        return write_page(text, PAGE, out, files.written), files.written, line
    judged = judge_all(claims, steps, KINDS, errors, "simulated")
    ends = frames.ends(judged)
    drawn = figure_files.read(HERE / "figures.yaml")
    tables = {"step": steps, "inputs": ends}
    pictures = {}
    for name, figure in drawn.items():
        shown_rows = figure_files.rows(figure, tables[name])
        picture = figure_files.draw(figure, tables[name])
        pictures[name] = files.picture(picture, name, figure.alt, figure.title, {"": shown_rows})
    text = template(
        "figure4_alexnet.md.j2",
        missing="",
        numbers=said(judged),
        ps=number(ratio_of_kinds(steps, "PS-Sync")),
        headlines=[row(claim, judged[claim.id]) for claim in claims if claim.headline],
        others=[row(claim, judged[claim.id]) for claim in claims if not claim.headline],
        pictures=pictures,
        flips=flips(judged),
        error=errors["simulated"].source,
        seeds=steps["seed"].nunique(),
        runs=sorted(set(zip(steps["kind"], steps["hardware"], steps["origin"]))),
    )
    return write_page(text, PAGE, out, files.written), files.written, sentence(judged)


def missing(steps: pd.DataFrame, errors: Mapping[str, Error]) -> str:
    """The first experiment without which there is no page; "" where all were run."""
    there = set(steps["kind"])
    needed = {f"pipesgd/{frames.EMULATED}": "emulated" in there, f"pipesgd/{frames.SIMULATED}": "simulated" in there,
              f"pipesgd/{frames.INPUTS}": steps["input"].nunique() > 1, "validation/shaped": bool(errors)}  # fmt: skip
    return next((experiment for experiment, run in needed.items() if not run), "")


def ratio_of_kinds(steps: pd.DataFrame, variant: str) -> float:
    """Seconds of an iteration emulated over simulated."""
    mine = steps[(steps["variant"] == variant) & (steps["input"] == BASE)].groupby("kind")["step_s"].median()
    return float(mine["emulated"] / mine["simulated"])


def said(judged: Mapping[str, Sequence[Judged]]) -> dict[str, str]:
    """claim:kind -> ours, as the sentences of the page quote it."""
    return {f"{claim}:{one.kind}": shown(one) for claim, of_kinds in judged.items() for one in of_kinds}


def shown(one: Judged) -> str:
    """`1.75 (1.60 to 1.95)`"""
    low, point, high = (number(value) for value in (one.ours.low, one.ours.point, one.ours.high))
    return point if low == high else f"{point} ({low} to {high})"


def row(claim: Claim, of_kinds: Sequence[Judged]) -> dict[str, Any]:
    """A claim as the tables of the page show it."""
    by_kind = {one.kind: f"{shown(one)}: **{one.verdict.text}**" for one in of_kinds}
    unsettled = [one for one in of_kinds if one.verdict.text not in ("holds", "holds, within")]
    why = ""
    if claim.not_here:
        why = f"not testable here: {claim.not_here}"
    elif unsettled and claim.because:
        basis = f"tested by {claim.because.tested}" if claim.because.tested else "conjecture"
        why = f"{claim.because.cause} ({basis})"
    return {"text": claim.text, "source": claim.source, "scope": claim.scope, "paper": claim.paper.shown, "fixed": claim.tolerance.fixed,
            "why": why or DASH, **{kind: by_kind.get(kind, DASH) for kind in KINDS}}  # fmt: skip


def flips(judged: Mapping[str, Sequence[Judged]]) -> list[str]:
    """For each claim of an effect: at which ends of inputs its direction is another."""
    lines = []
    for claim, of_kinds in judged.items():
        for one in of_kinds:
            if one.claim.claimed:
                where = ", ".join(one.flips) or "none"
                lines.append(f"`{claim}`, {one.kind}: {where}")
    return lines


def sentence(judged: Mapping[str, Sequence[Judged]]) -> str:
    """What the overview says of the page."""
    (one,) = [each for each in judged["over-dsync"] if each.kind == "emulated"]
    return (
        f"Pipe-SGD with compression over D-Sync on AlexNet, emulated: {shown(one)} times as fast, {one.verdict.text}."
    )
