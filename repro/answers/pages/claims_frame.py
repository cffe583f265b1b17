"""`repro.claims`: the verdicts on papers' claims as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.pages import overview
from repro.answers.tables import results
from repro.core.errors import unknown_name

if TYPE_CHECKING:
    import pandas as pd


def read_claims(paper: str | None = None) -> pd.DataFrame:
    """The verdict of each kind of number on each claim of a paper, or of all (None), with your runs and the committed
    ones.

    Columns: `paper`, `claim` (its name), `text`, `source` (its place in the paper), `headline`, `about`, `experiment`,
    `kind` (of our number); the paper's range `paper_low`, `paper_high`; our number `ours` with the ends `low`, `high`
    of its interval; `verdict` (the word), `factor` (ours over the paper's, for words that say by how much),
    `baseline_factor` (our baseline over the paper's), `reason`, `origin`. A bar on stderr shows how many claims of a
    paper are judged. InputError for a paper without claims.
    """
    import pandas as pd
    from tqdm import tqdm

    papers = [*overview.papers()]
    if paper not in (None, *papers):
        raise unknown_name("paper with claims", str(paper), papers)
    rows: list[dict[str, Any]] = []
    for name in papers if paper is None else [paper]:
        read = results.read(name, None)
        shown = tqdm(read.file.claims, f"judging the claims of {name}", unit="claim", leave=False)
        rows += [_row(name, each) for each in read.judge(shown)]
    return pd.DataFrame(rows)


def _row(paper: str, judged: ClaimVerdict) -> dict[str, Any]:
    claim, verdict, ours = judged.claim, judged.verdict, judged.estimate
    return {
        "paper": paper,
        "claim": claim.id,
        "text": claim.text,
        "source": claim.source,
        "headline": claim.headline,
        "about": claim.about,
        "experiment": claim.experiment,
        "kind": judged.kind,
        "paper_low": claim.paper.low,
        "paper_high": claim.paper.high,
        "ours": ours and ours.point,
        "low": ours and ours.low,
        "high": ours and ours.high,
        "verdict": verdict.answer,
        "factor": verdict.factor,
        "baseline_factor": verdict.baseline and verdict.baseline.factor,
        "reason": verdict.reason,
        "origin": judged.evidence.origin,
    }
