"""Evidence from modelled runs is kept while they do not change; that from measured ones is computed each time."""

from __future__ import annotations

import pytest

from repro.answers.claims import kept_evidence
from repro.answers.claims.evidence import ClaimEvaluator, claims_of
from repro.answers.claims.kept_evidence import evidence_key, judge_with_kept
from tests.reports.data.summaries import FIG4, NOWHERE, SYNTHETIC, make, shown


@pytest.fixture
def computed(tmp_path, monkeypatch):
    """The kinds of the evidence that was computed, once per claim."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    compute, kinds = ClaimEvaluator.evidence, []

    def counted(self, claim, kind):
        kinds.append(kind)
        return compute(self, claim, kind)

    monkeypatch.setattr(ClaimEvaluator, "evidence", counted)
    return kinds


def judged(runs):
    """The verdicts on these runs of Figure 4."""
    found = {("fig4-mnist", kind): group for kind, group in shown("pipesgd", runs, FIG4).items()}
    evaluator = ClaimEvaluator(claims_of("pipesgd"), lambda name, kind: found.get((name, kind)), NOWHERE)
    groups = {place: group.records.values() for place, group in found.items()}
    return judge_with_kept(evaluator, evaluator.file.claims, evidence_key("pipesgd", groups))


def runs_of(kind, **changes):
    return [make(name, kind, seed, **changes) for name in SYNTHETIC for seed in range(2)]


def test_a_new_measured_run_leaves_the_evidence_of_modelled_ones(computed):
    simulated = runs_of("simulated")
    before = judged(simulated)
    assert {"simulated", "measured"} < {*computed}
    computed.clear()
    after = judged([*simulated, *runs_of("measured")])
    assert {*computed} == {"measured"}
    for kind, same in (("simulated", True), ("measured", False)):
        of_kind = [[each for each in verdicts if each.kind == kind] for verdicts in (before, after)]
        assert (of_kind[0] == of_kind[1]) is same and any(each.estimate for each in of_kind[1])


def test_a_modelled_run_with_another_result_is_judged_anew(computed):
    before = judged(runs_of("simulated"))
    computed.clear()
    slower = [
        run | {"step": {name: 2 * s for name, s in run["step"].items()}} if run["strategy"] == "pipe_sgd" else run
        for run in runs_of("simulated")
    ]
    after = judged(slower)
    assert "simulated" in computed and before != after


def test_a_kept_file_that_cannot_be_read_is_a_miss(computed, tmp_path):
    before = judged(runs_of("simulated"))
    [kept] = (tmp_path / "cache").rglob("evidence-*.json")
    kept.write_text(kept.read_text()[:-40])
    assert judged(runs_of("simulated")) == before


def test_other_draws_or_another_validation_are_another_key(computed, tmp_path):
    keys = [evidence_key("pipesgd", {})]
    for file in ("pipesgd/fig4-mnist/a/draws.jsonl", "validation/steps/b/summary.json"):
        path = tmp_path / "results" / file
        path.parent.mkdir(parents=True)
        path.write_text("{}")
        keys.append(evidence_key("pipesgd", {}))
    assert kept_evidence.sweep.FILE == "draws.jsonl" and len({repr(key) for key in keys}) == 3
