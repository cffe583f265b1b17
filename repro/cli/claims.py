"""A paper's headline claims on a terminal: the paper's number, ours, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.records.catalogue import REFERENCE, WORKSPACE

if TYPE_CHECKING:
    from repro.answers.claims.evaluate import ClaimVerdict

# origin of a number -> the user's words for it
FROM = {WORKSPACE: "yours", REFERENCE: "reference", f"{REFERENCE} / {WORKSPACE}": "reference and yours"}
LINES = 12  # maximum number of a paper's headlines on a terminal


def judge_headlines(paper: str) -> list[list[ClaimVerdict]]:
    """A paper's headline claims, each judged for every kind of number; [] for a paper without claims."""
    from repro.answers.claims import published_verdicts
    from repro.answers.pages import overview, wording

    verdicts = published_verdicts.verdicts(paper, None) if paper in overview.papers() else []
    return [list(kinds) for kinds in wording.by_claim(verdicts).values() if kinds[0].claim.headline]


def claim_rows(claims: Sequence[Sequence[ClaimVerdict]]) -> list[dict[str, str]]:
    """A row for each claim, with the kind of number that decides it: settled claims, then open, then not judged."""
    from repro.answers.pages import wording

    deciding = sorted(
        map(wording.deciding, claims), key=lambda judged: (not judged.verdict.settled, not judged.verdict.judged)
    )
    return [
        {
            "verdict": judged.verdict.answer,
            "paper": judged.claim.paper.shown,
            "ours": wording.ours(judged),
            "kind": judged.kind,
        }
        | {"from": FROM.get(judged.evidence.origin, judged.evidence.origin), "claim": judged.claim.text}
        | {"reason": judged.verdict.reason}
        for judged in deciding
    ]


def format_claims(claims: Sequence[dict[str, str]]) -> str:
    """A line for each claim, at most `LINES`, and the number of further ones."""
    shown = [
        (row["verdict"], f"paper {row['paper']}", f"{row['ours']} {row['kind']}, {row['from']}", _claim(row))
        for row in claims
    ]
    widths = [max(map(len, column)) for column in zip(*shown)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    more = [f"and {len(lines) - LINES + 1} more on the page"] if len(lines) > LINES else []
    return "\n".join([*lines[: LINES - len(more)], *more])


def _claim(row: dict[str, str]) -> str:
    return f"{row['claim']} ({row['reason']})" if row["reason"] else row["claim"]
