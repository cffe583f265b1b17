"""Runs side by side: only what stands in one place is compared, yours before the committed ones."""

from __future__ import annotations

import pytest

from repro.records import catalogue, comparison
from repro.records.catalogue import REFERENCE, WORKSPACE, Found
from tests.reports.data.summaries import make, timing_only


def table(*found):
    return catalogue.table("runs", [Found(origin, None, run) for origin, run in found])


def run(variant, step_s, origin=WORKSPACE, cell="", **changes):
    changed = {"step": {"mean_s": step_s}, "scale": "quick", "cell": cell or f"{variant}-{step_s}"} | changes
    return origin, make(variant, **changed)


def test_the_end_of_a_run_shows_each_variant_over_the_first_and_the_committed_ones():
    own = table(run("PS-Sync", 0.4), run("D-Sync", 0.1), run("D-Sync", 0.3, seed=1), run("Pipe-SGD", 0.1))
    committed = table(run("D-Sync", 0.25, REFERENCE), run("D-Sync", 9.0, REFERENCE, scale="full"))
    ((title, found),) = comparison.ending(own, committed)
    assert title == f"pipesgd/fig4-mnist: mnist_mlp, {own['dataset'][0]}, on here (measured, quick)"
    assert list(found.index) == ["PS-Sync", "D-Sync", "Pipe-SGD"] and list(found["seeds"]) == [1, 2, 1]
    assert list(found["ms"]) == pytest.approx([400, 200, 100])
    assert list(found["over PS-Sync"]) == pytest.approx([1, 2, 4])
    assert found.loc["D-Sync", "ms, reference"] == pytest.approx(250)
    assert "s to 0.98" in found and found["final"].notna().all()
    assert "400" in comparison.of([(title, found)]) and title in comparison.of([(title, found)])


def test_without_committed_runs_nothing_stands_beside_yours():
    ((_, found),) = comparison.ending(table(run("D-Sync", 0.1)), table())
    assert "ms, reference" not in found


def test_what_the_paper_prints_stands_beside_what_there_is_of_ours():
    own = table(run("D-Sync", 0.4), run("Pipe-SGD", 0.1), run("Pipe-SGD + T", 0.1, batch=200))
    printed = {"final": {"D-Sync": 0.98}, "over D-Sync": {"Pipe-SGD": 3.0}, "over Pipe-SGD": {"Pipe-SGD + T": 1.5}}
    data = own["dataset"][0]
    papers = {("pipesgd", "fig4-mnist", "mnist_mlp", data): printed | {"over Q": {"D-Sync": 9.0}}}
    ((_, found),) = comparison.ending(own, table(), papers)
    assert found.loc["D-Sync", "final, paper"] == 0.98 and found.loc["Pipe-SGD", "over D-Sync, paper"] == 3.0
    # by sample: a step of twice the samples in the same time is twice as fast
    assert list(found["over Pipe-SGD"]) == pytest.approx([0.25, 1, 2 * 200 / (2 * 100)])
    assert found.loc["Pipe-SGD + T", "over Pipe-SGD, paper"] == 1.5
    assert not [column for column in found if "Q" in column.split(",")[0] or column == "ms, paper"]
    ((_, elsewhere),) = comparison.ending(own, table(), {("pipesgd", "fig4-mnist", "alexnet", data): printed})
    assert not [column for column in elsewhere if "paper" in column]
    origin, timed = run("D-Sync", 0.1)
    ((_, found),) = comparison.ending(table((origin, timing_only(timed))), table(), papers)
    assert "final, paper" not in found
    other = {"name": "other", "standin": False}
    assert len(comparison.ending(table(run("D-Sync", 0.4), run("D-Sync", 0.4, dataset=other)), table())) == 2


def test_where_time_alone_was_modelled_there_is_no_score():
    origin, timed = run("D-Sync", 0.1)
    ((_, found),) = comparison.ending(table((origin, timing_only(timed))), table())
    assert list(found) == ["seeds", "ms", "over D-Sync"]


def test_breakdown_runs_and_probes_are_not_compared():
    assert comparison.ending(table(run("D-Sync", 0.1, breakdown=True)), table()) == []


def test_two_names_are_compared_where_both_were_run():
    runs = table(
        run("D-Sync", 0.4), run("D-Sync", 0.2, REFERENCE, cell="old"), run("D-Sync", 1.0, workers=8),
        run("Pipe-SGD", 0.1), run("Pipe-SGD + T", 0.05, REFERENCE), run("Pipe-SGD", 5.0, kind="simulated"),
    )  # fmt: skip
    found = comparison.compare(runs, "pipe_sgd", "D-Sync")
    rows = found.set_index("variant A").sort_index()
    assert list(rows.index) == ["Pipe-SGD", "Pipe-SGD + T"]
    assert rows[["ms A", "ms B", "A / B"]].to_numpy().tolist() == [
        pytest.approx([100, 400, 0.25]), pytest.approx([50, 400, 0.125])]  # fmt: skip
    assert comparison.compare(runs, "D-Sync", "dsync").empty
