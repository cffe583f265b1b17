"""The file of verdicts published with a paper's reference runs: write it, and compare it with today's verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.claims.verdict import NOT_RUN
from repro.answers.tables.results import read
from repro.core import strict_json
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import reference_root

DIGITS = 9  # of our numbers: those on which machines agree


def write(paper: str) -> Path:
    """Write the verdicts on a paper's claims that follow from the reference alone."""
    lines = [json.dumps(entry) for entry in entries(verdicts(paper, reference_root()))]
    write_atomically(_path(paper), "[\n" + ",\n".join(lines) + "\n]\n")
    return _path(paper)


def entries(every: Iterable[ClaimVerdict]) -> list[dict[str, str]]:
    """An entry a claim and kind: its verdict, and our number with its interval."""
    return [_entry(one) for one in every if one.verdict.answer != NOT_RUN or one.verdict.reason]


def differences(paper: str, today: Iterable[ClaimVerdict] | None = None) -> tuple[int, list[str]]:
    """How many verdicts were published, and a line for each that differs today.

    today: the verdicts from the reference alone, if known already. Raises InputError for a file of another form.
    """
    path = _path(paper)
    try:
        published = strict_json.parse_json(path.read_bytes())
        if not isinstance(published, list):
            raise ValueError("must be a list")
        before = {(entry["claim"], entry["kind"]): entry for entry in published}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the verdicts of a paper ({error})") from None
    today = verdicts(paper, reference_root()) if today is None else today
    now = {(entry["claim"], entry["kind"]): entry for entry in entries(today)}
    return len(before), [
        f"{claim} ({kind}): {_text(now.get((claim, kind)))}, published: {_text(before.get((claim, kind)))}"
        for claim, kind in sorted({*before, *now})
        if before.get((claim, kind)) != now.get((claim, kind))
    ]


def verdicts(paper: str, results: Path | None) -> list[ClaimVerdict]:
    """The verdicts on a paper's claims, as its page shows them."""
    return read(paper, results).verdicts


def _path(paper: str) -> Path:
    return reference_root() / paper / "verdicts.json"


def _entry(one: ClaimVerdict) -> dict[str, str]:
    entry = {"claim": one.claim.id, "kind": one.kind, "verdict": one.verdict.text}
    if own := one.estimate:
        entry["ours"] = " ".join(f"{value:.{DIGITS}g}" for value in (own.point, own.low, own.high))
    return entry


def _text(entry: dict[str, str] | None) -> str:
    return "nothing" if entry is None else "; ours ".join(filter(None, (entry["verdict"], entry.get("ours"))))
