"""A paper's headline claims on a terminal: the paper's number, ours, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.records.catalogue import REFERENCE, WORKSPACE

if TYPE_CHECKING:
    from repro.answers.claims.evaluate import Judged

# origin of a number, in the words of the workspace's owner
FROM = {WORKSPACE: "yours", REFERENCE: "reference", f"{REFERENCE} / {WORKSPACE}": "reference and yours"}


LINES = 12  # of a paper's headlines on a terminal


def headlines(paper: str) -> list[list[Judged]]:
    """A paper's headline claims, each judged for every kind of number; empty for a paper without claims."""
    from repro.answers.claims import published_verdicts
    from repro.answers.pages import overview, wording

    every = published_verdicts.judged(paper, None) if paper in overview.papers() else []
    return [list(of) for of in wording.by_claim(every).values() if of[0].claim.headline]


def rows(claims: Sequence[Sequence[Judged]]) -> list[dict[str, str]]:
    """A row a claim, of the kind of number that decides it: first those that are settled, then open and not judged."""
    from repro.answers.pages import wording

    told = sorted(map(wording.deciding, claims), key=lambda one: (not one.verdict.settled, not one.verdict.judged))
    return [
        {"verdict": one.verdict.answer, "paper": one.claim.paper.shown, "ours": wording.ours(one), "kind": one.kind}
        | {"from": FROM.get(one.evidence.origin, one.evidence.origin), "claim": one.claim.text}
        for one in told
    ]


def text(found: Sequence[dict[str, str]]) -> str:
    """A line a claim, at most `LINES`, and how many more there are."""
    shown = [
        (row["verdict"], f"paper {row['paper']}", f"{row['ours']} {row['kind']}, {row['from']}", row["claim"])
        for row in found
    ]
    widths = [max(map(len, column)) for column in zip(*shown)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    more = [f"and {len(lines) - LINES + 1} more on the page"] if len(lines) > LINES else []
    return "\n".join([*lines[: LINES - len(more)], *more])
