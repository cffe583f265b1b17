"""The verdicts that were published with a paper's reference, and those that its claims have today."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from repro.answers.claims.evaluate import Judged
from repro.answers.claims.verdict import NOT_RUN
from repro.answers.tables.results import gathered
from repro.core import strict_json
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import reference_root

DIGITS = 9  # of ours: what machines agree on


def write(paper: str) -> Path:
    """Publish the verdicts on a paper's claims, from the reference alone."""
    lines = [json.dumps(entry) for entry in entries(judged(paper, reference_root()))]
    write_atomically(_path(paper), "[\n" + ",\n".join(lines) + "\n]\n")
    return _path(paper)


def entries(every: Iterable[Judged]) -> list[dict[str, str]]:
    """An entry a claim and kind: its verdict, and ours with the seeds' interval."""
    return [_entry(one) for one in every if one.verdict.answer != NOT_RUN or one.verdict.reason]


def differences(paper: str, today: Iterable[Judged] | None = None) -> tuple[int, list[str]]:
    """How many verdicts were published, and a line for each that is another today; InputError for another file.

    today: what the reference alone says, where that is known already.
    """
    path = _path(paper)
    try:
        published = strict_json.parse(path.read_bytes())
        if not isinstance(published, list):
            raise ValueError("must be a list")
        before = {(entry["claim"], entry["kind"]): entry for entry in published}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the verdicts of a paper ({error})") from None
    today = judged(paper, reference_root()) if today is None else today
    now = {(entry["claim"], entry["kind"]): entry for entry in entries(today)}
    return len(before), [
        f"{claim} ({kind}): {_said(now.get((claim, kind)))}, published: {_said(before.get((claim, kind)))}"
        for claim, kind in sorted({*before, *now})
        if before.get((claim, kind)) != now.get((claim, kind))
    ]


def judged(paper: str, results: Path | None) -> list[Judged]:
    """The verdicts on a paper's claims, as its page has them."""
    return gathered(paper, results).court.judged()


def _path(paper: str) -> Path:
    return reference_root() / paper / "verdicts.json"


def _entry(one: Judged) -> dict[str, str]:
    entry = {"claim": one.claim.id, "kind": one.kind, "verdict": one.verdict.text}
    if ours := one.ours:
        entry["ours"] = " ".join(f"{value:.{DIGITS}g}" for value in (ours.point, ours.low, ours.high))
    return entry


def _said(entry: dict[str, str] | None) -> str:
    return "nothing" if entry is None else "; ours ".join(filter(None, (entry["verdict"], entry.get("ours"))))
