"""What `repro recommend` advises and how it says it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from repro.algorithms.timing.step import Step
from repro.answers.ranking import (
    answer,
    candidates,
    forms,
    question,
    text,
)
from repro.answers.ranking.arguments import Question
from repro.answers.ranking.candidates import read_candidates
from repro.answers.ranking.flips import Flip
from repro.answers.ranking.form_errors import FormError
from tests.unit.answers.ranking.settings import LAYERS, LOAD, PROFILE, points_of, setting


def test_the_words_show_the_best_rows_or_all():
    ranked = answer.rank_strategies(setting(8), LOAD, ["computation"], simulating=False)
    few, every_row = text.format_answer(ranked), text.format_answer(ranked, True)
    assert "--all" in few and len(few.splitlines()) < len(every_row.splitlines())
    assert all(row.candidate.label in every_row for row in ranked.rows)
    assert ranked.best("synchronous").candidate.label in few


def test_a_flip_may_name_a_strategy_that_is_impossible_here():
    few = LAYERS[:3]  # no pipeline of four stages
    where = replace(setting(4), profile=replace(PROFILE, layers=few))
    ranked = answer.rank_strategies(where, LOAD, [], simulating=False)
    assert "gpipe" not in [row.candidate.name for row in ranked.rows]
    gpipe = Flip("workers", 4, "gpipe", "ddp")
    words = text.format_answer(replace(ranked, flips={kind: [gpipe] for kind in ranked.flips}))
    assert "by workers (2 to 128): GPipe; from 4 workers on DDP." in words


def rows_of(seconds):
    """An answer of candidates whose seconds in two draws are these."""
    ranked = answer.rank_strategies(setting(8), LOAD, ["computation"], simulating=False)
    among = {name: one for name, one in read_candidates().items() if name in seconds}
    rows = [
        replace(
            row,
            step=Step(sum(seconds[name]) / 2, {"computation": sum(seconds[name]) / 2, "communication": 0.0}),
            fastest=answer.fastest_shares(among, seconds, row.candidate, seconds[name]),
            beaten=answer.beaten_shares(among, seconds, row.candidate, seconds[name]),
        )
        for row in ranked.rows
        if (name := row.candidate.name) in seconds
    ]
    return replace(ranked, rows=sorted(rows, key=lambda row: row.seconds), flips={})


def test_a_strategy_replaces_a_simpler_one_only_if_it_pays_in_most_draws():
    sure = rows_of({"ddp": (1.1, 1.1), "gpipe": (1.0, 1.0)})
    unsure = rows_of({"ddp": (1.1, 1.0), "gpipe": (1.0, 1.0)})
    small = rows_of({"ddp": (1.04, 1.04), "gpipe": (1.0, 1.0)})
    assert [one.best("any").candidate.name for one in (sure, unsure, small)] == ["gpipe", "ddp", "ddp"]


def test_a_tie_names_the_simplest_and_then_the_others():
    tied = rows_of({"gpipe": (1.0, 1.0), "ps": (1.01, 1.01), "ddp": (1.02, 1.02), "ps_single": (2.0, 2.0)})
    assert [row.candidate.name for row in tied.ties("synchronous")] == ["ddp", "ps", "gpipe"]
    line = text.format_decision(tied)
    assert (
        line.startswith("Use DDP on 8 machines of one GPU. A tie") and "(GPipe; sharded server, layer by layer)" in line
    )


def test_a_strategy_that_changes_the_updates_never_leads():
    ranked = rows_of({"ddp": (1.0, 1.0), "topk": (0.1, 0.1)})
    line = text.format_decision(ranked)
    assert line.startswith("Use DDP on ") and "Top-k, 0.1 % takes 10% of the time" in line
    below = Flip("bandwidth", 1e9, "gtopk", "topk")
    assert "gTop-k" not in text.format_decision(replace(ranked, flips={"synchronous": [], "any": [below]}))


def test_in_one_machine_the_answer_says_that_bandwidth_is_not_used():
    (slow, load, known, notes), (fast, *_) = (
        question.parse_question(Question("resnet20", bandwidth, 4, gpus_per_node=4, step_ms=10.0))
        for bandwidth in ("10m", "100g")
    )
    assert forms.step_seconds(read_candidates(), slow) == forms.step_seconds(read_candidates(), fast)
    words = text.format_answer(answer.rank_strategies(slow, load, known, notes=notes, simulating=False))
    assert "bandwidth and latency between machines are not used" in words and "by bandwidth" not in words


@pytest.fixture
def form_errors_of(monkeypatch):
    """Sets the usual error of all forms, and that of one form apart."""

    def set_errors(usual, **apart):
        errors = {name: FormError(200, 1.0 - usual, usual, 0.0, (-usual, usual)) for name in read_candidates()}
        monkeypatch.setattr(candidates, "committed_errors", lambda: errors | apart)

    return set_errors


def test_a_strategy_whose_form_is_not_good_enough_is_shown_but_not_ranked(form_errors_of):
    form_errors_of(0.01, gpipe=FormError(200, 0.5, 0.3, -0.2, (-0.4, 0.3)), ps=None)
    ranked = rows_of({"ddp": (1.0, 1.0), "gpipe": (0.1, 0.1), "ps": (0.1, 0.1)})
    assert [row.candidate.name for row in ranked.ties("any")] == ["ddp"]
    assert text.format_table(ranked, every_row=True).count("unranked") == 2
    legend = "\n".join(text.legend_lines(ranked))
    assert "GPipe is not ranked: its form is within 5% of its simulation in 50% of 200 random settings" in legend


def test_the_candidates_that_are_simulated_do_not_depend_on_the_time_it_takes(monkeypatch, form_errors_of):
    form_errors_of(0.02)
    where = setting(4, 1e11)
    points = {name: forms.closed_form_step(read_candidates()[name], where) for name in points_of(where)}
    clock = iter(range(0, 10**9, 1000))
    chosen = list(answer.simulate_best(read_candidates(), points, where))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    assert list(answer.simulate_best(read_candidates(), points, where)) == chosen != []


def test_only_candidates_that_the_forms_cannot_tell_apart_are_simulated(form_errors_of):
    form_errors_of(0.02)
    points = {name: Step(1.0 + 0.2 * n, {}) for n, name in enumerate(read_candidates())}
    assert answer.undecided_candidates(read_candidates(), points, "any") == []
    points["layerwise"] = Step(points["ddp"].seconds * 1.01, {})
    assert answer.undecided_candidates(read_candidates(), points, "synchronous") == ["ddp", "layerwise"]
