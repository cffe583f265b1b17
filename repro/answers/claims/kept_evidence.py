"""The evidence from all runs but measured ones, kept in the user's cache while these runs do not change.

Most of a page's time goes into draws of inputs, which a new measured run leaves as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

from repro.answers.claims.claims import Claim
from repro.answers.claims.evaluate import ClaimVerdict, Evidence
from repro.answers.claims.evidence import ClaimEvaluator
from repro.answers.claims.residuals import VALIDATION
from repro.core import config_folders, user_cache
from repro.core.paths import PACKAGE, RECORD_FILE, reference_root, results_root
from repro.records import sweep
from repro.records.kinds import MEASURED
from repro.records.record import Found
from repro.records.variants import WORKSPACE

PUBLISHED = (".parquet", "manifest.json")
EVIDENCE = TypeAdapter(dict[str, Evidence | None])  # by claim and kind


def evidence_key(paper: str, groups: Mapping[tuple[str, str], Iterable[Found]]) -> list[Any]:
    """What the evidence from a paper's modelled runs depends on: these runs and the validation's, all draws, and the
    code with the paper's claims. groups: (experiment, kind) -> the runs that its page shows."""
    modelled = {place: [*runs] for place, runs in groups.items() if place[1] != MEASURED}
    shown = [[*place, *((run.origin, run.record.name) for run in runs)] for place, runs in modelled.items()]
    own = [run.record.plain() for runs in modelled.values() for run in runs if run.origin == WORKSPACE]
    published = [reference_root() / name for name in (paper, VALIDATION)]
    workspace = results_root()
    return [
        str(workspace),
        shown,
        own,
        user_cache.tree_digest(published, PUBLISHED),
        user_cache.tree_digest([workspace / VALIDATION], (RECORD_FILE,)),
        user_cache.tree_digest([workspace / paper], (sweep.FILE,)),
        user_cache.tree_digest([PACKAGE], without=["out"]),
        config_folders.folders_state(),
    ]


def judge_with_kept(evaluator: ClaimEvaluator, claims: Iterable[Claim], key: Any) -> list[ClaimVerdict]:
    """The evaluator's verdicts on claims; evidence from modelled runs is computed only if the key has changed."""
    stored = user_cache.load_cached("evidence", key)
    known = EVIDENCE.validate_python(stored) if stored else {}
    before = len(known)

    def evidence(claim: Claim, kind: str) -> Evidence | None:
        if kind == MEASURED:
            return evaluator.evidence(claim, kind)
        place = f"{claim.id} {kind}"
        if place not in known:
            known[place] = evaluator.evidence(claim, kind)
        return known[place]

    verdicts = evaluator.verdicts(claims, evidence)
    if len(known) > before:
        user_cache.save_cached("evidence", key, EVIDENCE.dump_python(known, mode="json"))
    return verdicts
