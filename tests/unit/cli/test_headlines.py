"""A paper's headlines after its run: the user's answer beside the committed one, or the command that makes it."""

from __future__ import annotations

import pytest

from repro.answers.claims.verdict import NOT_TESTABLE
from repro.answers.tables import results
from repro.cli import experiments
from repro.cli.headlines import LINES, find_lacking, format_headlines, judge_headlines
from repro.cli.pages import answer_claims
from repro.core.paths import reference_root
from repro.records import catalogue, store
from repro.records.kinds import EMULATED, SIMULATED
from repro.records.variants import REFERENCE, WORKSPACE


@pytest.fixture(scope="module")
def committed():
    """The committed results, whose draws are evaluated once for all tests."""
    return results.read("pipesgd", reference_root())


@pytest.fixture
def workspace(tmp_path, monkeypatch, committed):
    monkeypatch.setattr(results, "read", lambda paper, root: {("pipesgd", reference_root()): committed}[paper, root])
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    return tmp_path


def test_without_runs_each_headline_has_the_committed_answer_and_a_command_with_its_time(workspace):
    headlines = judge_headlines("pipesgd")
    assert all(not each.mine and each.committed.evidence.origin == REFERENCE for each in headlines)
    assert all(each.command.startswith("repro run pipesgd/") and each.seconds > 0 for each in headlines)
    lines = format_headlines(headlines * 2).splitlines()
    assert len(lines) == 3 * (LINES - 1) + 1 and str(2 * len(headlines) - LINES + 1) in lines[-1]
    for headline, text, mine in zip(headlines, lines[::3], lines[1::3], strict=False):
        assert headline.claim.text in text and headline.claim.paper.shown in text and headline.command in mine


@pytest.mark.usefixtures("workspace")
def test_the_answers_are_on_the_screen_before_pages_are_built(capsys, monkeypatch):
    shown = []
    monkeypatch.setattr("repro.cli.pages.build_pages", lambda paper: shown.append(capsys.readouterr().out))
    experiments.show_where("pipesgd", report=True, runs=[], mirrored=[])
    (before,) = shown
    assert all(each.claim.text in before for each in judge_headlines("pipesgd")[: LINES - 1])


def copy_committed(workspace, chosen):
    """The headlines after `write_committed`."""
    write_committed(workspace, chosen)
    return {each.claim.id: each for each in judge_headlines("pipesgd")}


def write_committed(workspace, chosen):
    """Committed runs of Pipe-SGD as the user's. chosen: a function that returns the run to write, or None."""
    for run in filter(None, map(chosen, catalogue.runs("pipesgd"))):
        folder = workspace / run.identity.paper / run.record.name
        folder.mkdir(parents=True)
        store.write(folder, run.record)


def test_the_user_s_runs_are_judged_with_the_committed_draws_and_shown_first(workspace):
    headlines = copy_committed(
        workspace,
        lambda run: run if run.identity.experiment == "fig4-alexnet" and run.kind == EMULATED else None,
    )
    answered = headlines["alexnet-pipelining-alone"]
    (mine,) = answered.mine
    assert mine.evidence.origin == WORKSPACE and answered.committed.evidence.origin == REFERENCE
    assert mine.verdict.answer == answered.committed.verdict.answer
    assert mine.estimate.point == pytest.approx(answered.committed.estimate.point)
    assert {each.claim.experiment for each in headlines.values() if each.mine} == {"fig4-alexnet"}
    assert next(iter(headlines.values())).mine
    keys = {run.label: run.record.key for run in catalogue.runs("pipesgd", workspace)}
    shown = answer_claims("pipesgd/fig4-alexnet", keys.values())
    assert shown.count("  yours ") == sum(bool(each.mine) for each in headlines.values()) == len(shown.splitlines()) / 3
    # a command of another variant has no part in these answers: the lines say which command makes them
    for other in (keys["PS-Sync"], "0" * 64):
        lines = [line for line in answer_claims("pipesgd/fig4-alexnet", {other}).splitlines() if "  yours " in line]
        assert lines and all("none; repro run pipesgd/fig4-alexnet" in line and " takes " in line for line in lines)


@pytest.mark.parametrize("kind", [SIMULATED, EMULATED])
def test_the_user_s_runs_of_one_kind_have_the_range_that_the_page_gives_them(workspace, committed, kind):
    """Without the committed runs of the other kind a terminal's range was another one than the page's."""
    experiment = "fig4-alexnet"
    headlines = copy_committed(
        workspace, lambda run: run if run.identity.experiment == experiment and run.kind == kind else None
    )
    on_page = {each.claim.id: each.estimate for each in committed.verdicts if each.kind == kind and each.estimate}
    mine = {each.claim.id: each.estimate for headline in headlines.values() for each in headline.mine}
    assert mine and mine == {name: on_page[name] for name in mine}


def test_a_time_of_the_user_s_without_its_arithmetic_says_so_beside_the_verdict(workspace):
    def unpriced(run):
        if run.identity.experiment != "fig4-alexnet" or run.kind != SIMULATED:
            return None
        return run.changed(run.training.model_copy(update={"free_arithmetic": "T" in run.label}))

    answers = [each for each in copy_committed(workspace, unpriced).values() if each.mine]
    assert "without the time of the arithmetic of Pipe-SGD + T" in format_headlines(answers)
    assert not any(each.committed.evidence.unpriced for each in answers)


def test_stand_in_data_answer_no_claim_about_accuracy_and_the_line_says_so(workspace):
    def on_stand_in(run):
        if run.identity.experiment != "accuracy-codecs":
            return None
        dataset = run.training.dataset.model_copy(update={"standin": True})
        return run.changed(run.training.model_copy(update={"dataset": dataset}))

    answers = [each for each in copy_committed(workspace, on_stand_in).values() if each.mine]
    mine = [judged for each in answers for judged in each.mine]
    assert mine and all(judged.verdict.answer == NOT_TESTABLE and not judged.estimate for judged in mine)
    assert "stand-in" in format_headlines(answers)


def test_a_claim_on_a_variant_that_no_run_has_names_it_and_those_there_are(workspace):
    """As after a new method's name in the experiment and the old one in the claims."""
    write_committed(workspace, lambda run: run if run.identity.experiment == "accuracy-codecs" else None)
    mine = results.read_workspace("pipesgd")
    claim = next(each.claim for each in mine.verdicts if each.claim.experiment == "accuracy-codecs")
    assert find_lacking(mine, claim) == ""
    misnamed = claim.model_copy(update={"value": claim.value.model_copy(update={"of": {"variant": "K = 7"}})})
    text = find_lacking(mine, misnamed)
    assert "variant K = 7" in text and all(run.label in text for run in mine.runs.records.values())
