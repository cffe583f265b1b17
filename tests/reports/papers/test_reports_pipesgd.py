"""The Pipe-SGD page from the reference: its figures against the runs, and its arithmetic."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import pandas as pd
import pytest

from repro.answers.figures import specification as figures
from repro.answers.figures import specs
from repro.core.paths import CONFIGS, reference_root
from repro.records import catalogue
from repro.reports.pipesgd import tables
from repro.reports.pipesgd.tables import PAPER
from tests.reports.data.summaries import FIG4

SPECS = figures.read(Path(tables.__file__).with_name("figures.yaml"))


@pytest.fixture
def page(reported):
    return reported(PAPER).page


@pytest.fixture(scope="module")
def every_run():
    """Every run of the reference, read without the reports."""
    return catalogue.runs(PAPER, reference_root())


def seconds(every_run, experiment, variant, kind="simulated"):
    """Seconds of an iteration, one a seed."""
    runs = [run for run in every_run if (run.identity.experiment, run.label, run.kind) == (experiment, variant, kind)]
    return [run.training.final["train_s"] / run.training.iterations for run in runs]


@pytest.fixture(scope="module")
def emulated(every_run):
    """variant -> seconds of AlexNet's emulated iteration at the paper's rate."""
    variants = {run.label for run in every_run if (run.identity.experiment, run.kind) == ("fig4-alexnet", "emulated")}
    return {variant: median(seconds(every_run, "fig4-alexnet", variant, "emulated")) for variant in variants}


def table(page, name):
    """The rows of a figure or table of the page."""
    return specs.table(SPECS.figures.get(name) or SPECS.tables[name], page.results, tables.TABLES)


def test_captions_say_what_kind_each_number_is(reported):
    captions = [line for line in reported(PAPER).text.splitlines() if line.startswith("*Figure")]
    assert captions and all(re.search(r"\*\*(emulated|simulated)|final top-1", line) for line in captions)


# --- figures and tables against the runs


def test_speedups_are_times_over_times_and_the_paper_s_ends(page, every_run, emulated):
    found = table(page, "speedups")
    for experiment, benchmark in (("fig4-mnist", "MNIST-MLP"), ("fig4-resnet18", "ResNet18")):
        compressed = [f"Pipe-SGD + {codec}" for codec in "TQ"]
        fastest = min(median(t) for v in compressed if (t := seconds(every_run, experiment, v)))
        for over in ("D-Sync", "PS-Sync"):
            own = found[(found["benchmark"] == benchmark) & (found["over"] == f"over {over}")]
            expected = median(seconds(every_run, experiment, over)) / fastest
            assert own[own["kind"] == "simulated"]["speedup"].median() == pytest.approx(expected)
    found = found[found["over"] == "over D-Sync"]
    own = found[(found["kind"] == "emulated") & (found["benchmark"] == "AlexNet")]
    assert own["speedup"].tolist() == [pytest.approx(emulated["D-Sync"] / emulated["Pipe-SGD + Q"])]
    printed = pd.read_csv(CONFIGS / "reference" / f"{PAPER}.csv")
    printed = printed[printed["quantity"].str.startswith("speed-up against D-Sync")]
    quoted = found[found["kind"] == "paper"]
    assert {*quoted["low"], *quoted["high"]} == {*printed["value"].astype(float)}


def test_steps_and_parts_of_an_iteration_are_those_of_the_runs(page, every_run, emulated):
    shown = table(page, "step").query("benchmark == 'AlexNet'").set_index(["kind", "variant"])["iteration_ms"] / 1e3
    for variant, expected in emulated.items():
        assert shown["emulated", variant] == pytest.approx(expected)
        assert shown["simulated", variant] == pytest.approx(*seconds(every_run, "fig4-alexnet", variant))
    parts = table(page, "phases").groupby(["benchmark", "variant", "seed"])["thousand_s"].sum()
    for variant in FIG4.variants:
        whole = 1e3 * median(seconds(every_run, "fig4-mnist", variant))
        assert parts["MNIST-MLP", variant, 0] == pytest.approx(whole, rel=0.01)  # but for fill and drain


# --- arithmetic on the paper's own numbers


def test_the_percentages_of_cifar100_convex_follow_from_one_of_them_as_shorter_times(page):
    found = tables.percentages(page.results).set_index("what")
    computation = 1 / 0.63 - 1  # of communication: Pipe-SGD takes 63 % of computation + communication
    shorter = {
        "D-Sync faster than PS-Sync": 1 - (computation + 1) / (computation + 2),
        "Pipe-SGD + T faster than D-Sync + T": 1 - computation / (computation + 0.5),
    }
    for what, share in shorter.items():
        assert found.loc[what, "as a shorter time"] == f"{100 * share:.0f} %"
        assert found.loc[what, "as a higher speed"] != f"{100 * share:.0f} %"
    assert found.loc["Pipe-SGD + T over D-Sync", "as a shorter time"] == f"{1 + 1 / computation:.2f} times"


def test_reductions_are_the_closed_forms_of_the_errata(page, emulated):
    assert tables.incast_reduction(4) == pytest.approx(1 - 1.5 / 8)
    assert tables.staggered_reduction(4) == pytest.approx(1 - 1.5 / 5)
    found = tables.reductions(page.results).set_index(["of", "kind"])["less"]
    assert found["all four", "paper"] == 0.5
    computing = 0.0534 * 1.05
    expected = 1 - (emulated["D-Sync"] - computing) / (emulated["PS-Sync"] - computing)
    assert found["AlexNet", "emulated"] == pytest.approx(expected, rel=0.01)
    (sixteen,) = set(tables.ring(page.results).query("kind == 'paper'")["factor"].round(9))
    assert sixteen == 32 / 2


def test_gaps_of_accuracy_are_held_against_the_test_set(page):
    found = tables.resolution(page.results).set_index(["benchmark", "variant"])
    one = found.loc["MNIST-MLP", "Pipe-SGD + T"]
    assert one["gap"] == pytest.approx(0.0003) and one["error"] == pytest.approx((2 * 0.9833 * 0.0167 / 10_000) ** 0.5)
    gains = found[found["gap"] > 0]
    assert len(gains) and (gains["gap"] < gains["error"]).all()
