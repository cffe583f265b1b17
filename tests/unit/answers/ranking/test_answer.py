"""What `repro recommend` advises and how it says it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from repro.algorithms.timing.step import Step
from repro.answers.ranking import (
    answer,
    answer_question,
    candidates,
    decision,
    flips,
    forms,
    question,
    text,
)
from repro.answers.ranking.arguments import Question
from repro.answers.ranking.candidates import read_candidates
from repro.answers.ranking.flips import Flip
from repro.answers.ranking.form_errors import FormError
from repro.core.errors import InputError
from tests.unit.answers.ranking.settings import LAYERS, LOAD, PROFILE, setting


def test_the_words_show_the_best_rows_or_all():
    ranked = answer.rank_strategies(setting(8), LOAD, ["computation"])
    few, every_row = text.format_answer(ranked), text.format_answer(ranked, True)
    assert "--all" in few and len(few.splitlines()) < len(every_row.splitlines())
    assert all(row.candidate.label in every_row for row in ranked.rows)
    assert ranked.best.candidate.label in few


def test_a_flip_may_name_a_strategy_that_is_impossible_here():
    few = LAYERS[:3]  # no pipeline of four stages
    where = replace(setting(4), profile=replace(PROFILE, layers=few))
    ranked = answer.rank_strategies(where, LOAD, [])
    assert "gpipe" not in [row.candidate.name for row in ranked.rows]
    gpipe = Flip("workers", 4, "gpipe", "ddp")
    words = text.format_answer(replace(ranked, flips=[gpipe]))
    assert "By workers (2 to 128, without draws): GPipe; from 4 workers on DDP." in words


def rows_of(seconds):
    """An answer of candidates whose seconds in two draws are these."""
    ranked = answer.rank_strategies(setting(8), LOAD, ["computation"])
    among = {name: one for name, one in read_candidates().items() if name in seconds}
    rows = [
        replace(
            row,
            step=Step(sum(seconds[name]) / 2, {"computation": sum(seconds[name]) / 2, "communication": 0.0}),
            fastest=answer.fastest_share(among, seconds, row.candidate, seconds[name]),
            beaten=answer.beaten_share(among, seconds, row.candidate, seconds[name]),
        )
        for row in ranked.rows
        if (name := row.candidate.name) in seconds
    ]
    return replace(ranked, rows=sorted(rows, key=lambda row: row.seconds), flips=())


def test_a_strategy_replaces_a_simpler_one_only_if_it_pays_in_most_draws():
    sure = rows_of({"ddp": (1.1, 1.1), "horovod": (1.0, 1.0)})
    unsure = rows_of({"ddp": (1.1, 1.0), "horovod": (1.0, 1.0)})
    small = rows_of({"ddp": (1.04, 1.04), "horovod": (1.0, 1.0)})
    assert [one.best.candidate.name for one in (sure, unsure, small)] == ["horovod", "ddp", "ddp"]


def test_a_tie_names_the_simplest_and_then_the_others():
    seconds = {"layerwise": (1.0, 1.0), "horovod": (1.01, 1.01), "ddp": (1.02, 1.02), "allreduce": (2.0, 2.0)}
    tied = rows_of(seconds)
    assert [row.candidate.name for row in tied.ties] == ["ddp", "horovod", "layerwise"]
    words = decision.format_decision(tied)
    assert "A tie" in words and "(allreduce, layer by layer; Horovod)" in words


@pytest.mark.parametrize("other", ["topk", "gpipe", "ps"])
def test_a_strategy_that_changes_the_updates_or_is_unproven_never_leads(other):
    ranked = rows_of({"ddp": (1.0, 1.0), other: (0.1, 0.1)})
    first, *rest = decision.format_decision(ranked).splitlines()
    assert "DDP on 8 machines of one GPU" in first
    assert f"{read_candidates()[other].label} (" in rest[-1] and "unproven) 2,560" in rest[-1]


def test_fewer_workers_are_advised_where_they_are_faster():
    """The ring's first message takes ten times as long as the computation of one worker."""
    slow, fast = (
        decision.format_decision(answer.rank_strategies(setting(8, bits), LOAD, ["computation"]))
        for bits in (1e8, 1e12)
    )
    assert slow.startswith("Stay on one GPU (") and "8 machines of one GPU reach with this batch: DDP" in slow
    assert fast.startswith("Use DDP on 8 machines of one GPU: ") and "times one GPU (" in fast


def test_more_workers_are_worth_it_from_the_goodput_and_the_batch_that_are_said():
    def alone(bits):
        return answer.rank_strategies(setting(8, bits), LOAD, ["computation"]).alone[0]

    def all_s(bits, minibatches=1):
        ddp = read_candidates()["ddp"].model_copy(update={"accumulate": minibatches})
        return forms.closed_form_step(ddp, setting(8, bits)).seconds

    border = alone(1e10).pays_from
    assert all_s(1.01 * border) < 0.95 * 8 * alone(1e10).seconds < all_s(0.99 * border)
    bits, most = border / 3, 8 * alone(border / 3).seconds
    assert all_s(bits, alone(bits).minibatches) * alone(bits).gain == pytest.approx(most)
    assert alone(bits).gain > 1.05 > most / all_s(bits, alone(bits).minibatches // 2)
    assert alone(border / 1000).minibatches is None


def test_a_border_does_not_depend_on_where_it_is_looked_for():
    where = setting(8)
    borders = [
        flips.Changes(read_candidates(), where.with_entries(beta_s_per_byte=8 / bits), {}).find_flips()
        for bits in (1e8, 1e10, 1e12)
    ]
    by_bits = [[flip for flip in found if flip.what == "bandwidth"] for found in borders]
    assert by_bits[0] and by_bits[0] == by_bits[1] == by_bits[2]


def test_the_memory_of_a_gpu_names_the_largest_batch():
    def asked(batch, precision="fp32"):
        return answer_question(Question("gpt2", "10g", 8, gpu="A100", batch=batch, precision=precision))

    with pytest.raises(
        InputError, match=r"memory 80\.0G: no proven strategy fits; .* the largest batch that fits is (\d+)"
    ) as e:
        asked(128)
    largest = int(re.search(r"that fits is (\d+)", str(e.value))[1])
    assert asked(largest).best.fits
    with pytest.raises(InputError, match=f"that fits is {largest} "):
        asked(largest + 1)
    assert "of memory, so the GPU of 80.0G." in decision.format_decision(asked(largest))
    assert asked(2 * largest, "bf16").best.fits


def test_in_one_machine_the_answer_says_that_bandwidth_is_not_used():
    (slow, load, known, notes), (fast, *_) = (
        question.parse_question(Question("resnet20", bandwidth, 4, gpus_per_node=4, step_ms=10.0))
        for bandwidth in ("10m", "100g")
    )
    assert forms.step_seconds(read_candidates(), slow) == forms.step_seconds(read_candidates(), fast)
    words = text.format_answer(answer.rank_strategies(slow, load, known, notes=notes))
    assert "bandwidth and latency between machines are not used" in words and "By bandwidth" not in words


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
    assert [row.candidate.name for row in ranked.ties] == ["ddp"]
    assert text.format_table(ranked, every_row=True).count("unranked") == 2
    legend = "\n".join(text.legend_lines(ranked, ranked.rows))
    assert "GPipe is not ranked: its form is within 5% of its simulation in 50% of 200 random settings" in legend
