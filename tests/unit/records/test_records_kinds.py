"""Kinds of numbers, comparison of runs, and staleness of gradients."""

from __future__ import annotations

import json
import math

import pytest

from repro.answers.mlflow.format import final_metrics, staleness
from repro.cli import experiments
from repro.core.errors import InputError
from repro.core.paths import reference_root
from repro.experiment.expand import expand_runs
from repro.records import catalogue, comparison, kinds, reference, store
from repro.records.events import read_events
from repro.records.kinds import EMULATED, MEASURED, PADDED, SIMULATED
from repro.records.record import Found, Record
from repro.records.tables import build_table
from repro.records.variants import REFERENCE, WORKSPACE
from tests.reports.data.summaries import make, timing_only
from tests.support import virtual_runs
from tests.support.records import plain_of, record_of
from tests.unit.mlflow.made import summary_of

# --- comparison of runs of one experiment, testbed and scale; those of the workspace take precedence


def table(*found):
    return build_table("runs", [Found(origin, record_of(run)) for origin, run in found])


def run(variant, step_s, origin=WORKSPACE, run="", **changes):
    changed = {"step": {"mean_s": step_s}, "scale": "quick", "run": run or f"{variant}-{step_s}"} | changes
    return origin, make(variant, **changed)


def test_the_end_of_a_run_shows_each_variant_over_the_first_and_the_committed_ones():
    own = table(run("PS-Sync", 0.4), run("D-Sync", 0.1), run("D-Sync", 0.3, seed=1), run("Pipe-SGD", 0.1))
    committed = table(run("D-Sync", 0.25, REFERENCE), run("D-Sync", 9.0, REFERENCE, scale="full"))
    ((title, found),) = comparison.tabulate_ending(own, committed)
    assert title == f"pipesgd/fig4-mnist: mnist_mlp, {own['dataset'][0]}, on here (measured, quick)"
    assert list(found.index) == ["PS-Sync", "D-Sync", "Pipe-SGD"] and list(found["seeds"]) == [1, 2, 1]
    assert list(found["ms"]) == pytest.approx([400, 200, 100])
    assert list(found["over PS-Sync"]) == pytest.approx([1, 2, 4])
    assert found.loc["D-Sync", "ms, reference"] == pytest.approx(250)
    assert "s to 0.97" in found and found["final"].notna().all()
    assert "400" in comparison.format_tables([(title, found)]) and title in comparison.format_tables([(title, found)])


def test_a_seed_that_never_reached_a_target_counts_as_infinite_and_one_without_accuracy_as_unknown():
    late = {"targets": {"0.97": None}}
    runs = table(run("D-Sync", 0.1, **late), run("D-Sync", 0.1, seed=1), run("D-Sync", 0.1, seed=2, **late))
    timed = table(run("D-Sync", 0.1, kind="simulated", final={"top1": None, "train_s": 1.0}, **late))
    assert sorted(runs["to_0.97_s"])[1:] == [math.inf, math.inf] and timed["to_0.97_s"].isna().all()
    both = table(run("PS-Sync", 0.1, targets={"0.97": {"train_s": 3.0}}), run("D-Sync", 0.1, **late))
    assert "not reached" in comparison.format_tables(comparison.tabulate_ending(both, table()))


def test_what_the_paper_prints_stands_beside_what_there_is_of_ours():
    own = table(run("D-Sync", 0.4), run("Pipe-SGD", 0.1), run("Pipe-SGD + T", 0.1, batch=200))
    sync, pipe, truncated = own["run"]
    printed = {sync: {"final": 0.98, "over Q": 9.0}, pipe: {"over D-Sync": 3.0}, truncated: {"over Pipe-SGD": 1.5}}
    ((_, found),) = comparison.tabulate_ending(own, table(), printed)
    assert found.loc["D-Sync", "final, paper"] == 0.98 and found.loc["Pipe-SGD", "over D-Sync, paper"] == 3.0
    # by sample: a step of twice the samples in the same time is twice as fast
    assert list(found["over Pipe-SGD"]) == pytest.approx([0.25, 1, 2 * 200 / (2 * 100)])
    assert found.loc["Pipe-SGD + T", "over Pipe-SGD, paper"] == 1.5
    assert not [column for column in found if "Q" in column.split(",")[0] or column == "ms, paper"]
    ((_, elsewhere),) = comparison.tabulate_ending(own, table())
    assert not [column for column in elsewhere if "paper" in column]
    origin, timed = run("D-Sync", 0.1)
    ((_, found),) = comparison.tabulate_ending(table((origin, timing_only(timed))), table(), printed)
    assert "final, paper" not in found
    other = {"name": "other", "standin": False}
    assert len(comparison.tabulate_ending(table(run("D-Sync", 0.4), run("D-Sync", 0.4, dataset=other)), table())) == 2


def test_a_changed_run_has_no_number_of_the_paper_beside_it_and_stand_in_or_fewer_data_no_score(monkeypatch):
    quoted = {"final": {"D-Sync": 0.98}, "ms": {"D-Sync": 5.0}}
    monkeypatch.setattr("repro.experiment.quoted.quoted_numbers", lambda experiment: quoted)

    def shown(variant="D-Sync", **changes):
        return experiments.printed_for(
            Found(WORKSPACE, record_of(run(variant, 0.4, **changes)[1])), "pipesgd/fig4-mnist"
        )

    assert shown(dataset={"name": "mnist", "standin": False}, scale="full") == {"final": 0.98, "ms": 5.0}
    assert shown(dataset={"name": "mnist-subset", "standin": False}, scale="quick") == {"ms": 5.0}
    assert shown(dataset={"name": "mnist", "standin": True}) == {"ms": 5.0}
    assert shown(workers=4, changed=["workers"]) == shown("Pipe-SGD") == {}


def test_a_table_of_one_s_runs_tells_them_apart_from_each_other_alone(monkeypatch):
    """Every row had 90 characters of a testbed's entry that is newer than the committed runs."""
    committed = next(
        each for each in catalogue.runs("pipesgd", reference_root())
        if each.identity.experiment == "fig4-mnist" and each.kind == SIMULATED and each.identity.trains
    )  # fmt: skip
    plain = committed.record.plain()
    plain["identity"]["testbed"]["newer_s"] = 1.0
    text = experiments.ending_table([Record.of(plain)], {committed.record.run: "pipesgd/fig4-mnist"})
    assert f"\n{committed.identity.variant} " in text and "newer_s" not in text


def test_timing_only_runs_have_no_score_and_breakdowns_are_not_compared():
    origin, timed = run("D-Sync", 0.1)
    ((_, ended),) = comparison.tabulate_ending(table((origin, timing_only(timed))), table())
    assert list(ended) == ["seeds", "ms"]
    assert comparison.tabulate_ending(table(run("D-Sync", 0.1, breakdown=True)), table()) == []


def test_two_names_are_compared_where_both_were_run():
    runs = table(
        run("D-Sync", 0.4), run("D-Sync", 0.2, REFERENCE, run="old"), run("D-Sync", 1.0, workers=8),
        run("Pipe-SGD", 0.1), run("Pipe-SGD + T", 0.05, REFERENCE), run("Pipe-SGD", 5.0, kind="simulated"),
    )  # fmt: skip
    found = comparison.compare(runs, "pipe_sgd", "D-Sync")
    rows = found.set_index("variant A").sort_index()
    assert list(rows.index) == ["Pipe-SGD", "Pipe-SGD + T"]
    assert rows[["ms A", "ms B", "A / B"]].to_numpy().tolist() == [
        pytest.approx([100, 400, 0.25]), pytest.approx([50, 400, 0.125])]  # fmt: skip
    assert comparison.compare(runs, "D-Sync", "dsync").empty


def test_two_names_without_a_pair_say_what_they_differ_in():
    lengths = [run("D-Sync", 0.4, epochs=epochs) for epochs in (2, 10)]
    compared = comparison.compare(table(run("Pipe-SGD", 0.1, epochs=5), *lengths), "pipe_sgd", "dsync")
    assert compared.empty
    assert compared.attrs[comparison.NOTES] == ["in pipesgd/fig4-mnist they differ in epochs (5; 2, 10)"]
    alone = comparison.compare(table(*lengths), "D-Sync", "dsync")
    assert alone.attrs[comparison.NOTES] == ["in pipesgd/fig4-mnist they are of one variant"]


# --- the kind of a run's numbers, from its summary and from its configuration


@pytest.mark.parametrize(
    ("testbed", "computation", "min_compute_s", "kind"),
    [
        (MEASURED, "multiply", None, MEASURED),
        (MEASURED, None, 0.0, MEASURED),
        (MEASURED, None, 0.61, PADDED),
        (MEASURED, "sleep", None, EMULATED),
        (MEASURED, "sleep", 0.61, EMULATED),
        (MEASURED, ["sleep"], None, MEASURED),
        (SIMULATED, "sleep", 0.61, SIMULATED),
    ],
)
def test_a_kind_follows_from_what_the_run_did(testbed, computation, min_compute_s, kind):
    assert kinds.kind(testbed, computation, min_compute_s) == kind


def test_an_invalid_result_is_reported_in_one_line(tmp_path):
    for changes in ({"program": "timing", "result": ["sleep"]}, {"step": [3]}):
        (tmp_path / "summary.json").write_text(json.dumps(plain_of(make("D-Sync") | changes)))
        with pytest.raises(InputError, match=r"summary\.json: not a readable summary \(result\.") as caught:
            store.read(tmp_path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("experiment", "overrides", "expected"),
    [
        ("pipesgd/fig4-alexnet", ["testbed=emulated/pipesgd-alexnet"], {EMULATED}),
        ("validation/shaped", [], {EMULATED}),
        ("validation/contention", [], {MEASURED}),
        ("eagersgd/fig9-measured", [], {MEASURED}),  # the skew is slept, and nothing is computed
        ("eagersgd/fig10", ["testbed=here"], {MEASURED}),  # so are delays
        ("eagersgd/fig10-padded", [], {PADDED, SIMULATED}),
    ],
)
def test_the_kind_follows_from_a_configuration(experiment, overrides, expected):
    runs = expand_runs(experiment, overrides, lacking=[])
    assert {kinds.of_config(run.config.plain()) for run in runs} == expected


@pytest.mark.parametrize("paper", reference.papers())
def test_the_kinds_of_published_runs(paper):
    for record in reference.read(paper):
        assert record.kind == kinds.of_config(record.identity.plain()), record.name


# --- staleness of each rank's gradients: in the event log, after a resume, in the summary and in MLflow


PIPELINE, SERVER = ("strategy=pipe_sgd", "strategy.K=3"), ("strategy=ps_async",)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The summaries of undisturbed runs, by their overrides."""
    return {case: virtual_runs.run(tmp_path_factory.mktemp("whole"), *case) for case in (PIPELINE, SERVER)}


def test_a_pipelines_gradients_are_K_less_one_updates_old(whole):
    steps = whole[PIPELINE]["iterations"]
    # the last two updates are made when the run drains, outside of a step
    assert whole[PIPELINE]["staleness"] == [{"0": 1, "1": 1, "2": steps - 4}] * 3


def test_a_server_counts_each_push(whole):
    *workers, server = whole[SERVER]["staleness"]
    assert workers == [{}] * 3 and sum(server.values()) == 3 * whole[SERVER]["iterations"]


def test_synchronous_strategies_have_no_staleness(tmp_path):
    assert virtual_runs.run(tmp_path, "strategy=dsync")["staleness"] == []
    assert not any("staleness" in event for event in read_events(tmp_path / "events.jsonl"))


def test_a_late_rank_is_late_in_its_own_histogram(tmp_path):
    """Worker 0 needs a millisecond more in every step: solo takes its gradient a round or more later."""
    (tmp_path / "delays").write_text("0.5,0,0\n0,0,0\n")
    delays = ("imbalance=trace", f"imbalance.file={tmp_path / 'delays'}")
    summary = virtual_runs.run(tmp_path / "run", "strategy=eager_solo", *delays)
    first, *others = summary["staleness"]
    late = [sum(count for rounds, count in rank.items() if rounds != "0") for rank in (first, *others)]
    assert late[0] > 0 and late[0] > max(late[1:])
    assert sum(sum(rank.values()) for rank in summary["staleness"]) == summary["counters"]["accepted"]


@pytest.mark.parametrize("strategy", [PIPELINE, SERVER])
@pytest.mark.parametrize("stop", [5, 20])
def test_a_resumed_run_counts_every_gradient_once(tmp_path, monkeypatch, whole, strategy, stop):
    virtual_runs.killed(tmp_path / "again", monkeypatch, len(whole[strategy]["staleness"]) * stop, *strategy)
    resumed = virtual_runs.run(tmp_path / "again", *strategy)
    assert resumed["wall"]["resumes"] == 1
    assert resumed["staleness"] == whole[strategy]["staleness"]
    assert resumed["weights_sha256"] == whole[strategy]["weights_sha256"]
    # cumulative at every stop, so that the last event has the total
    events = [event for event in read_events(tmp_path / "again" / "events.jsonl") if event["event"] == "steps"]
    totals = [sum(sum(rank.values()) for rank in event.get("staleness", [])) for event in events]
    assert totals == sorted(totals) and events[-1]["staleness"] == resumed["staleness"]


def test_means_and_shares_of_late_gradients():
    assert staleness({"0": 6, "1": 2, "4": 2}) == {"mean": 1.0, "late": pytest.approx(0.4)}
    assert staleness({"3": 5}) == {"mean": 3.0, "late": 1.0} and staleness({}) == {}
    found = final_metrics(record_of(summary_of([], staleness=[{"0": 1, "2": 1}, {}, {"0": 3}])))
    shown = {key: value for key, value in found.items() if key.startswith("staleness/")}
    assert shown == {
        "staleness/rank_0_mean": 1.0,
        "staleness/rank_0_late": 0.5,
        "staleness/rank_2_mean": 0.0,
        "staleness/rank_2_late": 0.0,
    }
    assert not any(key.startswith("staleness") for key in final_metrics(record_of(summary_of([]))))
