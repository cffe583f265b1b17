"""Causes: their status follows from runs with and without them, and an entry that lacks a part is one line of error."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from repro.answers.claims.causes import claim_statuses, judge_causes, number_with, read_causes
from repro.answers.claims.claims import Reason
from repro.answers.claims.drawn import Drawn, Sweeps
from repro.answers.claims.evidence import ClaimEvaluator, claims_of
from repro.answers.claims.stats import TIMES, format_number
from repro.answers.figures import ladder
from repro.answers.pages import wording
from repro.answers.pages.cause_section import CauseSection
from repro.answers.pages.files import Files
from repro.core.errors import InputError
from tests.reports.data.planned import NOWHERE, shown
from tests.reports.data.summaries import FIG4, make
from tests.support.records import found_of

OURS, SECOND = "speedup-vs-dsync", "dsync-truncation-not-ideal"
CAUSE = {
    "id": "host-copies",
    "mechanism": "Gradients are copied to the host.",
    "short": "copies to the host",
    "source": "the released code",
    "fixed": "2026-11-28",
    "experiment": "cause-copies",
    "predicts": {OURS: 2.4},
    "second": {SECOND: 1.6},
}


def read(tmp_path, *entries):
    path = tmp_path / "causes.yaml"
    path.write_text(yaml.safe_dump(list(entries)).replace("'2026-11-28'", "2026-11-28"))
    return read_causes(path, claims_of("pipesgd"))


def runs(faster: float):
    """Simulated runs of Figure 4's methods, pipelined ones `faster` times as fast as D-Sync's."""
    made = [make(name, "simulated") for name in ("D-Sync", "D-Sync + T", "Pipe-SGD", "Pipe-SGD + T", "Pipe-SGD + Q")]
    dsync = sum(made[0]["phases"].values())
    for run in made:
        if run["strategy"] == "pipe_sgd":
            run["step"] = run["step"] | {"mean_s": dsync / faster}
    return shown("pipesgd", made, FIG4)


def test_drawn_inputs_speak_to_times_alone_in_causes_as_in_verdicts(tmp_path):
    (cause,) = read(tmp_path, CAUSE)
    claims = {claim.id: claim for claim in claims_of("pipesgd").claims}
    runs = [Drawn(found_of(make(name, "simulated")), []) for name in ("D-Sync", "Pipe-SGD + T")]
    evaluator = ClaimEvaluator(claims_of("pipesgd"), lambda name, kind: None, NOWHERE, lambda name: Sweeps(runs))
    assert number_with(cause, claims[OURS], evaluator) is not None
    accuracy = claims["accuracy-pipe-sgd-t"]
    assert number_with(cause, accuracy, evaluator) is evaluator.evidence(accuracy, "simulated") is None


def statuses(causes, **faster):
    """The status of each step; faster: experiment -> how much faster its pipelined runs are."""
    kept = {name.replace("_", "-"): runs(times) for name, times in faster.items()}
    kept["fig4-mnist"] = kept.pop("ours")

    def find(experiment, kind):
        return kept.get(experiment, {}).get(kind)

    return judge_causes(causes, ClaimEvaluator(claims_of("pipesgd"), find, NOWHERE))


def ends(claim):
    """(a number within the claim's tolerance, a number outside of it)"""
    low, high = next(each for each in claims_of("pipesgd").claims if each.id == claim).widened
    return (low + high) / 2, high * 1.2


def test_the_status_of_a_cause_follows_from_runs_with_and_without_it(tmp_path):
    hit, miss = ends(OURS)
    for faster, changed, status in (
        ({"ours": miss, "cause_copies": hit}, {}, "tested"),
        ({"ours": miss, "cause_copies": hit}, {"fitted": True}, "implied"),
        ({"ours": miss, "cause_copies": miss}, {}, "no fit"),
        ({"ours": hit, "cause_copies": hit}, {}, "conjecture"),  # it explains nothing
        ({"ours": miss}, {}, "conjecture"),  # no run has it
        ({"ours": miss, "cause_copies": hit}, {"experiment": None}, "conjecture"),
    ):
        (step,) = statuses(read(tmp_path, CAUSE | changed), **faster)
        assert step.status == status, (faster, changed)


def test_tested_causes_that_exclude_each_other_are_rivals(tmp_path):
    hit, miss = ends(OURS)
    other = CAUSE | {"id": "other", "experiment": "cause-other", "excludes": ["host-copies"]}
    both = statuses(read(tmp_path, CAUSE, other), ours=miss, cause_copies=hit, cause_other=hit)
    assert [step.status for step in both] == ["rival", "rival"]
    one = statuses(read(tmp_path, CAUSE, other), ours=miss, cause_copies=hit, cause_other=miss)
    assert [step.status for step in one] == ["tested", "no fit"]  # what does not fit excludes nothing
    fits, misses = one[0], replace(one[1], cause=one[0].cause)  # of two claims of one cause
    for steps in ((fits, misses), (misses, fits)):
        assert claim_statuses(steps)["cause-copies", SECOND] == "tested"  # a second number's, in any order


def test_the_ladder_says_the_number_that_its_axis_does_not_reach(tmp_path):
    (step,) = statuses(read(tmp_path, CAUSE), ours=ends(OURS)[1], cause_copies=ends(OURS)[0])
    far = replace(step, headline=replace(step.headline, with_cause=1000.0))
    section = CauseSection("pipesgd", [far], {OURS: 1}, Files("pipesgd", tmp_path), label)
    ours, cause = section.rungs()
    far_away = f"{format_number(cause['end'], 2)} times the paper's (1,000{TIMES})"
    assert cause["text"] == f"{CAUSE['short']}: {far_away}" and cause["end"] > ladder.MOST
    assert ours["low"] < 1 < ours["high"]  # the paper prints a range
    near = replace(step, headline=replace(step.headline, without=1000.0))
    _, cause = CauseSection("pipesgd", [near], {OURS: 1}, Files("pipesgd", tmp_path), label).rungs()
    assert cause["text"] == f"{CAUSE['short']}: from {far_away}"


def label(claim):
    """The name of a claim in pictures."""
    return claim.text.partition(":")[0]


def test_a_cause_after_another_is_judged_against_that_ones_runs(tmp_path):
    hit, miss = ends(OURS)
    later = CAUSE | {"id": "later", "experiment": "cause-both", "after": "host-copies"}
    first, second = statuses(read(tmp_path, CAUSE, later), ours=miss, cause_copies=1.2 * miss, cause_both=hit)
    assert second.headline.without == first.headline.with_cause == pytest.approx(1.2 * miss)
    assert (first.status, second.status) == ("no fit", "tested")
    section = CauseSection("pipesgd", [first, second], {OURS: 1, SECOND: 2}, Files("pipesgd", tmp_path), label)
    assert section.unexplained == [] and "no fit" in section.table
    assert f"(with: {CAUSE['short']})" in section.table  # the second row's number without it is not our claim's
    excluded = statuses(read(tmp_path, CAUSE, later), ours=miss, cause_copies=1.2 * miss, cause_both=2 * miss)
    left = CauseSection("pipesgd", excluded[::-1], {OURS: 1, SECOND: 2}, Files("pipesgd", tmp_path), label).unexplained
    assert left == ["C1"]
    assert section.picture.startswith("![") and (tmp_path / "figures/pipesgd/ladder.png").is_file()


def test_a_rung_that_a_ratio_axis_cannot_show_says_so(tmp_path):
    (step,) = statuses(read(tmp_path, CAUSE), ours=ends(OURS)[1], cause_copies=ends(OURS)[0])
    lost = replace(step, headline=replace(step.headline, with_cause=-0.1))
    texts = [
        [row["text"] for row in CauseSection("pipesgd", [each], {OURS: 1}, Files("pipesgd", tmp_path), label).rungs()]
        for each in (step, lost)
    ]
    ours = f"C1. {label(step.headline.claim)} (simulated)"  # whichever claim it is, headline or not
    assert texts == [[ours, CAUSE["short"]], [ours, f"{CAUSE['short']}: below 0"]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": None}, "cause host-copies.source"),
        ({"source": " "}, "cause host-copies.source"),
        ({"predicts": {}}, "cause host-copies.predicts"),
        ({"second": None}, "cause host-copies.second"),
        ({"second": {OURS: 2.0}}, "must be another printed number"),
        ({"second": {"no-claim": 2.0}}, "cause host-copies: unknown claim with a number 'no-claim'"),
        ({"excludes": ["host-copies"]}, "cause host-copies: excludes: unknown other cause 'host-copies'"),
        ({"after": "nothing"}, "cause host-copies: unknown earlier cause 'nothing'"),
    ],
)
def test_an_entry_that_lacks_a_part_is_one_line_with_file_and_cause(tmp_path, changed, message):
    entry = {name: value for name, value in (CAUSE | changed).items() if value is not None}
    with pytest.raises(InputError, match=r"causes\.yaml") as error:
        read(tmp_path, entry)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_reason_that_printed_numbers_prove_says_so_and_points_to_the_proof():
    reason = Reason(claims=["speedup-vs-ps"], cause="Two ends exclude each other.", proved=True)
    assert wording.state_basis(reason, "speedup-vs-ps", {}) == "proved, cause unknown"
    assert wording.state_basis(reason.model_copy(update={"caveat": True}), "speedup-vs-ps", {}) == "proved"
    assert "docs/derivations.md" in wording.state_reason(reason, "speedup-vs-ps", {})
    assert wording.state_basis(reason.model_copy(update={"proved": False}), "speedup-vs-ps", {}) == "conjecture"


def test_a_row_names_the_cause_below_it_unless_that_is_the_row_above(tmp_path):
    hit, miss = ends(OURS)
    other = CAUSE | {"id": "other", "short": "something else", "experiment": "cause-other"}
    later = CAUSE | {"id": "later", "short": "both", "experiment": "cause-both", "after": "host-copies"}
    for causes, name in (((CAUSE, later), "+ both"), ((CAUSE, other, later), f"{CAUSE['short']} + both")):
        steps = statuses(read(tmp_path, *causes), ours=miss, cause_copies=hit, cause_other=hit, cause_both=hit)
        section = CauseSection("pipesgd", steps, {OURS: 1, SECOND: 2}, Files("pipesgd", tmp_path), label)
        assert [*section.rungs()][-1]["text"] == name
