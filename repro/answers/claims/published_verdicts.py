"""The file of verdicts published with a paper's reference runs: write it, and compare it with today's verdicts."""

from __future__ import annotations

import json
from pathlib import Path

from repro.answers.claims.causes import Step, steps_of_paper
from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.claims.verdict import NOT_RUN
from repro.answers.tables.results import Results, read
from repro.core import user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import reference_root

DIGITS = 9  # of our numbers: those on which machines agree


def write_verdicts(paper: str) -> Path:
    """Write the verdicts on a paper's claims and the statuses of its causes that follow from the reference alone."""
    lists = (
        f'"{name}": [\n' + ",\n".join(json.dumps(entry) for entry in entries) + "\n]"
        for name, entries in entries_of(read(paper, reference_root())).items()
    )
    write_atomically(_path(paper), "{" + ",\n".join(lists) + "}\n")
    return _path(paper)


def entries_of(results: Results) -> dict[str, list[dict[str, str]]]:
    """claims: an entry a claim and kind, its verdict and our number with its interval; causes: an entry a cause and
    claim, the status and our numbers without and with the cause."""
    judged = [each for each in results.verdicts if each.verdict.answer != NOT_RUN or each.verdict.reason]
    steps = steps_of_paper(results.paper, results.evaluator)
    return {"claims": [_entry_of_claim(each) for each in judged], "causes": [_entry_of_cause(step) for step in steps]}


def find_differences(paper: str, results: Results | None = None) -> tuple[int, list[str]]:
    """How many verdicts were published, and a line for each that differs today.

    results: those of the reference alone, if read already. Raises InputError for a file of another form.
    """
    path = _path(paper)
    try:
        before = _by_place(user_files.parse_json(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the verdicts of a paper ({error})") from None
    now = _by_place(entries_of(results or read(paper, reference_root())))
    return len(before), [
        f"{claim} ({kind}): {_text(now.get((claim, kind)))}, published: {_text(before.get((claim, kind)))}"
        for claim, kind in sorted({*before, *now})
        if before.get((claim, kind)) != now.get((claim, kind))
    ]


def _by_place(lists: dict[str, list[dict[str, str]]]) -> dict[tuple[str, str], dict[str, str]]:
    """(claim, kind or cause) -> entry"""
    claims = {(entry["claim"], entry["kind"]): entry for entry in lists["claims"]}
    return claims | {(entry["claim"], f"cause {entry['cause']}"): entry for entry in lists["causes"]}


def _path(paper: str) -> Path:
    return reference_root() / paper / "verdicts.json"


def _entry_of_claim(judged: ClaimVerdict) -> dict[str, str]:
    entry = {"claim": judged.claim.id, "kind": judged.kind, "verdict": judged.verdict.text}
    if estimate := judged.estimate:
        entry["ours"] = _numbers(estimate.point, estimate.low, estimate.high)
    return entry


def _entry_of_cause(step: Step) -> dict[str, str]:
    entry = {"claim": step.headline.claim.id, "cause": step.cause.id, "verdict": step.status}
    if None not in (ours := (step.headline.without, step.headline.with_cause)):
        entry["ours"] = _numbers(*ours)
    return entry


def _numbers(*values: float | None) -> str:
    return " ".join(f"{value:.{DIGITS}g}" for value in values)


def _text(entry: dict[str, str] | None) -> str:
    return "nothing" if entry is None else "; ours ".join(filter(None, (entry["verdict"], entry.get("ours"))))
