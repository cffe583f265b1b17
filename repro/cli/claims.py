"""A paper's headline claims on a terminal: the paper's number, ours, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.records.catalogue import REFERENCE, WORKSPACE

if TYPE_CHECKING:
    from repro.answers.claims.evaluate import Judged

# origin of a number, in the words of the workspace's owner
FROM = {WORKSPACE: "yours", REFERENCE: "reference", f"{REFERENCE} / {WORKSPACE}": "reference and yours"}


def headlines(paper: str) -> list[list[Judged]]:
    """A paper's headline claims, each judged for every kind of number; empty for a paper without claims."""
    from repro.answers.claims import published_verdicts
    from repro.answers.pages import overview, wording

    every = published_verdicts.judged(paper, None) if paper in overview.papers() else []
    return [list(of) for of in wording.by_claim(every).values() if of[0].claim.headline]


def rows(claims: Sequence[Sequence[Judged]]) -> list[dict[str, str]]:
    """A row for each claim and kind that has a number; for a claim without any, the row with the reason."""
    from repro.answers.pages import wording

    return [
        {"claim": one.claim.text, "paper": one.claim.paper.shown, "kind": one.kind, "ours": wording.ours(one)}
        | {"verdict": one.verdict.text, "from": FROM.get(one.evidence.origin, one.evidence.origin)}
        for of in claims
        for one in ([one for one in of if one.ours] or [wording.deciding(of)])
    ]


def text(found: Sequence[dict[str, str]]) -> str:
    """For each claim a line with the paper's number, then one for each kind of ours."""
    columns = ("kind", "ours", "from", "verdict")
    widths = {name: max([len(row[name]) for row in found], default=0) for name in columns[:-1]} | {"verdict": 0}
    lines, before = [], ""
    for row in found:
        if row["claim"] != before:
            lines += [row["claim"], f"  {'paper':{widths['kind']}}  {row['paper']}"]
        lines.append("  " + "  ".join(f"{row[name]:{widths[name]}}" for name in columns).rstrip())
        before = row["claim"]
    return "\n".join(lines)
