"""The PipeDream page from the reference: its figures against the runs, and its arithmetic."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from repro.answers.claims import claims
from repro.answers.claims.evidence import outcome_of
from repro.answers.figures import schedules
from repro.answers.pages.reference import quoted
from repro.answers.tables.runs import Runs
from repro.answers.tables.time_to_target import epochs_to, tabulate_targets
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.records.tables import build_table
from repro.reports.pipedream import contradictions, derived, stages, tables
from repro.reports.pipedream.stages import PIPEDREAM, SINGLE

CLAIMS = {claim.id: claim for claim in claims.read_claims(Path(stages.__file__).with_name("claims.yaml")).claims}


@pytest.mark.parametrize(("metric", "scores"), [("top1", [0.5, None, 0.8, 0.9]), ("perplexity", [200, None, 90, 80])])
def test_epochs_to_a_target_know_whether_lower_is_better(metric, scores):
    curve = [{"epoch": epoch, metric: score} for epoch, score in enumerate(scores, 1)]
    run = SimpleNamespace(identity=SimpleNamespace(metric=metric), training=SimpleNamespace(curve=curve))
    assert epochs_to(run, scores[2]) == 3
    assert epochs_to(run, {"top1": 0.99, "perplexity": 70}[metric]) == float("inf")


@pytest.fixture
def page(reported):
    return reported("pipedream").page


@pytest.fixture(scope="module")
def runs():
    return build_table("runs", catalogue.runs("pipedream", reference_root()))


def csv(page, name):
    return pd.read_csv(page.files.out / "figures" / "pipedream" / f"{name}.csv")


def rate(runs, experiment, variant):
    """Samples a second, from the reference's table alone."""
    (run,) = runs.query("experiment == @experiment and variant == @variant and kind == 'simulated'").itertuples()
    return run.batch / run.step_s


def test_bars_of_table_1_are_the_reference_s_rates_and_the_paper_s_numbers(page, runs):
    bars = csv(page, "table1").set_index(["row", "variant", "kind"])["speedup"]
    ours = rate(runs, "table1-vgg16-8b", PIPEDREAM) / rate(runs, "table1-vgg16-8b", SINGLE)
    assert bars["VGG16, 8 (B)", "PipeDream", "simulated"] == pytest.approx(ours)
    for row in ("VGG16, 16 (A)", "S2VT, 4 (A)"):
        value = quoted("pipedream").value("Table 1", row, "BSP", "speed-up over 1 machine")
        assert bars[row, "BSP", "paper"] == value
    # the paper's share of bytes is of its own configuration: 2-1-1, and 7-1, which is ours too
    printed = csv(page, "bytes").query("kind == 'paper'").groupby("row")["variant"].agg(set)
    assert printed["VGG16, 4 (A)"] == {"PipeDream, as printed"} != printed["VGG16, 8 (A)"]


def test_the_interval_of_a_speed_up_is_that_of_its_claim_and_of_no_other_with_the_same_variants(page):
    drawn = csv(page, "over-bsp").set_index(["row", "over", "kind"])
    for each in page.results.claims("vgg16-4a-over-bsp"):  # `vgg16-4a-reduction` compares bytes of the same variants
        (bar,) = drawn.loc[[("VGG16, 4 (A)", "BSP", each.kind)]].itertuples()
        assert (bar.low, bar.high) == pytest.approx((each.estimate.low, each.estimate.high))
    alexnet = csv(page, "table1").query("row == 'AlexNet, 8 (B)'")  # no claim is on it: the paper prints no number
    assert (alexnet["low"] < alexnet["high"]).all()


def test_lines_of_figure_1_are_the_reference_s_phases(page, runs):
    drawn = csv(page, "fig1").groupby(["testbed", "model", "workers"])["percent"].median() / 100
    runs = runs[runs["experiment"] == "fig1"]
    share = (runs["phases.communicate"] + runs["phases.wait"]) / runs["step_s"]
    expected = share.groupby([runs["testbed"], runs["model"], runs["workers"]]).median()
    assert len(drawn) == len(expected) and drawn.tolist() == pytest.approx(expected.tolist())


# --- what its numbers are made of


def test_pieces_of_a_pass_are_one_box():
    pieces = [("forward", 0, 1, 0), ("forward", 1.001, 2, 0), ("forward", 2, 3, 1), ("wait", 3, 4, None),
              ("forward", 4, 5, 1), ("backward", 5, 6, 0)]  # fmt: skip
    trace = [{"rank": 0, "line": "main", "name": n, "start": a, "end": b, "minibatch": m} for n, a, b, m in pieces]
    rows = [
        (box.name, box.minibatch, box.start, box.end)
        for box in schedules.main_passes(SimpleNamespace(training=SimpleNamespace(trace=trace)))
    ]
    assert rows == [("forward", 0, 0, 2), ("forward", 1, 2, 5), ("backward", 0, 5, 6)]


def test_memory_that_was_not_predicted_is_seen(page):
    group = page.results.shown["memory", "measured"]
    evidence = page.results.evaluator.evidence(CLAIMS["memory-predicted"], "measured")
    assert derived.memory_off(group).values == evidence.outcome.values

    def more(rank):
        predicted = {name: value / 2 for name, value in rank["predicted"].items()}
        return rank | {"predicted": predicted, "in_flight": 2 * rank["in_flight"]}

    runs = group.records.values()
    ranks = ({"per_rank": [more(rank) for rank in run.training.per_rank]} for run in runs)
    wrong = Runs.of(run.changed(run.training.model_copy(update=of)) for run, of in zip(runs, ranks, strict=True))
    assert min(derived.memory_off(wrong).values.values()) > 1.5
    assert min(derived.in_flight(wrong, "output").values.values()) >= 2


@pytest.mark.parametrize("claim", ["fig1-workers", "fig1-compute", "gain-follows-overhead", "vgg16-8b-configuration"])
def test_numbers_from_several_variants_are_one_a_draw(page, claim):
    claim = CLAIMS[claim]
    group = page.results.evaluator.runs_for(claim, "simulated")
    (number,) = outcome_of(claim, group).values.values()
    again = (run.changed(run.training, seed=seed) for run in group.records.values() for seed in (0, 1, 2))
    assert outcome_of(claim, Runs.of(again)).values == dict.fromkeys(range(3), pytest.approx(number))


def test_contradictions_are_arithmetic_on_the_paper_s_numbers(page):
    off = contradictions.table(page.results).set_index("what")["off"]
    assert off["VGG16, 8 (B): BSP over one machine"] == "-75 %"
    assert "VGG16, 8 (A): bytes less than BSP" in off and "VGG16, 4 (A): bytes less than BSP" not in off
    layers = [{"name": n, "activation_bytes": a, "parameter_bytes": w} for n, a, w in (("a", 4, 1), ("b", 1, 9))]
    assert contradictions.sent(layers, [1], [4]) == 2 * 3 * 10
    # two rounds of two replicas of 1 byte, and three minibatches of 4 bytes forward and backward
    assert contradictions.sent(layers, [0, 1], [2, 1]) == pytest.approx(3 / 2 * 2 * 1 + 3 * 2 * 4)
    assert contradictions.best_reduction(layers, "3-1") == pytest.approx(1 - (4 / 3 * 2 * 2 + 4 * 2 * 4) / 60)


def test_the_configurations_that_the_paper_prints_stand_in_the_claims():
    paper = quoted("pipedream")
    for row, label in ((row, label) for row, label in stages.ROWS.items() if row.startswith("table1-")):
        config = paper.text("Table 1", label, "PipeDream", "configuration")
        assert CLAIMS[f"{row.removeprefix('table1-')}-configuration"].value.arguments["printed"] == config
        assert sum(stages.replicas(config)) == int(label.split()[1])


def test_asp_is_charged_no_communication():
    """Section 5.2: "even though ASP has no communication overhead"; ours goes through one server."""
    row = SimpleNamespace(identity=SimpleNamespace(experiment="table1-vgg16-4a", workers=4))
    group = SimpleNamespace(records={0: row})
    of = {("table1-vgg16-4a", SINGLE): 100.0, ("table1-vgg16-4a", "asp"): 150.0, ("table1-vgg16-4a", "bsp"): 300.0}
    assert derived.row_rate(group, of, "table1-vgg16-4a", "bsp") == 300.0
    assert derived.row_rate(group, of, "table1-vgg16-4a", "asp") == 400.0


def test_the_time_to_the_target_is_one_number_with_one_range(reported):
    """The claims' and the table's: over the seeds of the trainings, and the draws of the time of an epoch."""
    results = reported("pipedream").page.results
    table = tabulate_targets(results, tables.list_targets()).set_index(["workload", "variant"])
    for claim, row in {"vgg16-4a": "VGG16, 4 (A)", "vgg16-8a": "VGG16, 8 (A)", "vgg16-8b": "VGG16, 8 (B)"}.items():
        (estimate,) = (each.estimate for each in results.verdicts
                       if each.claim.id == f"{claim}-time-to-accuracy" and each.kind == "simulated")  # fmt: skip
        shown = table.loc[(row, "PipeDream"), ["sooner_low", "sooner", "sooner_high"]]
        assert (estimate.low, estimate.point, estimate.high) == pytest.approx(tuple(shown))
