"""Emulated runs of the reference beside the closed forms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from repro.answers.ranking import emulated
from repro.answers.ranking.against import Emulated, find_contests
from repro.answers.ranking.candidates import SYNCHRONOUS
from repro.answers.ranking.written import read_written
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.records.identity import Identity, NamedPart


def row(candidate, emulated_s, predicted_s):
    where = ("paper", "experiment", "variant", "setting", "bed", "model", 4, 10.0, 1.0, 0.0)
    return Emulated(*where, candidate, emulated_s, predicted_s)


@pytest.fixture(scope="module")
def run():
    """An emulated training of a candidate."""
    records = (one.record for one in catalogue.runs("pipesgd", reference_root()))
    return next(one for one in records if one.kind == "emulated" and emulated.candidate_of(one.identity.strategy))


def with_identity(run, **changes):
    return run.model_copy(update={"identity": run.identity.model_copy(update=changes)})


def test_a_committed_row_is_what_its_runs_and_the_form_give(run):
    row = emulated.of_run(run)
    (committed,) = (
        each
        for each in read_written(Emulated, "emulated")
        if (each.experiment, each.testbed, each.variant) == (row.experiment, row.testbed, row.variant)
    )
    assert committed.predicted_s == pytest.approx(row.predicted_s, rel=1e-4)
    assert committed.gbit == pytest.approx(row.gbit, rel=1e-4) and committed.ratio == pytest.approx(row.ratio, rel=1e-4)


def test_runs_on_links_of_other_queues_are_neither_averaged_nor_compared(run, monkeypatch):
    plain = run.identity.plain()
    other = Identity.model_validate(plain | {"testbed": plain["testbed"] | {"send_buffer": 131072}})
    runs = [run, run.model_copy(update={"identity": other}), with_identity(run, seed=99)]
    monkeypatch.setattr(emulated.reference, "papers", lambda: ["paper"])
    monkeypatch.setattr(emulated.reference, "read", lambda _: runs)
    first, second = emulated.emulated_rows()
    assert first.candidate == second.candidate and first.place != second.place


def test_runs_that_no_candidate_represents_have_no_row(run):
    assert emulated.of_run(run.model_copy(update={"kind": "measured"})) is None
    assert emulated.of_run(with_identity(run, imbalance=NamedPart(name="trace"))) is None
    assert emulated.candidate_of(NamedPart(name="dsync", codec="quantize8")) is None
    late = emulated.of_run(with_identity(run, imbalance=NamedPart(name="random_one", delay_s=0.5)))
    assert late.late > 0 and late.predicted_s >= emulated.of_run(run).predicted_s


def test_a_contest_is_between_strategies_in_one_place():
    rows = [row("ddp", 1.0, 1.0), row("layerwise", 2.0, 0.9), row("topk", 2.05, 3.0)]
    (contest,) = find_contests([*rows, replace(rows[0], setting="of 8 workers")])
    assert contest.fastest.candidate == "ddp" and contest.named.candidate == "layerwise" and not contest.right
    assert sorted(contest.pairs) == [False, True]  # layerwise and topk tie as emulated
    (exact,) = find_contests(rows, SYNCHRONOUS)
    assert len(exact.rows) == 2
