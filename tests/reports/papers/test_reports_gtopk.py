"""The gTop-k page from the reference and from nothing; its arithmetic on changed runs and on the paper's tables."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest

from repro.answers.pages import paper_page
from repro.answers.pages.files import Files
from repro.answers.pages.reference import quoted
from repro.answers.tables.results import arrange
from repro.answers.tables.runs import Runs
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.records.tables import build_table
from repro.reports.gtopk import derived, published, tables
from repro.reports.gtopk.published import ALGORITHMS, MODELS, MOST, PARAMETERS


@pytest.fixture
def page(reported):
    return reported("gtopk").page


def shown(page, name):
    """The rows behind a figure."""
    return pd.read_csv(page.files.out / "figures" / "gtopk" / f"{name}.csv")


# --- the page


def test_figures_show_the_runs_and_the_paper(page):
    runs = build_table("runs", catalogue.runs("gtopk", reference_root()))
    printed = ~runs["testbed"].str.contains("congested")
    fig10 = runs[(runs["experiment"] == "fig10") & (runs["workers"] == MOST) & printed]
    step = fig10.set_index(["kind", "factors.model", "factors.method"])["step_s"]
    bars = shown(page, "speedups").set_index(["over", "model", "kind"])["speedup"]
    for model, over in product(MODELS, ("Dense", "Top-k")):  # ours are their verdicts': see test_evidence
        assert bars[f"over {over}", model, "paper"] == published.speedup(model, over)
    total = shown(page, "breakdown").groupby(["model", "kind"])["seconds"].sum()
    for model in MODELS:
        assert total[model, "simulated"] == pytest.approx(step["simulated", model, "gTop-k"])
        batch = quoted("gtopk").value("Table VI", model, "one GPU", "batch size")
        rate = quoted("gtopk").value("Table VII", model, "gTop-k", "throughput, P = 32")
        assert total[model, "paper"] == pytest.approx(MOST * batch / rate)
    points = build_table("points", catalogue.runs("gtopk", reference_root()))
    losses = points[points["run"].str.startswith("fig12-vgg16/")]["loss"].dropna()
    assert sorted(shown(page, "densities")["loss"]) == pytest.approx(sorted(losses))
    messages = tables.messages(page.results).groupby(["kind", "bytes"])["seconds"].median()
    assert messages["simulated"].tolist() == pytest.approx(messages["paper's model"].tolist())


def test_without_results_it_shows_the_papers_numbers(tmp_path):
    paper_page.build("gtopk", tmp_path / "none", Files("gtopk", tmp_path / "out"))
    assert "12.8" in (tmp_path / "out" / "figures" / "gtopk" / "speedups.csv").read_text()


# --- the paper's own numbers


def test_the_paper_s_tables_contradict_its_time_model():
    every = tables.iterations(arrange("gtopk", [])).query("workers == @MOST").set_index(["kind", "model", "algorithm"])
    alpha, beta = published.alpha_beta()
    assert (alpha, beta) == pytest.approx((0.436e-3, 9e-9))
    seconds = every["seconds"]["paper"].unstack()
    assert (seconds["Dense"] / seconds["gTop-k"]).mean() == pytest.approx(6.708, abs=1e-3)
    assert (seconds["Top-k"] / seconds["gTop-k"]).mean() == pytest.approx(1.405, abs=1e-3)
    model = every["seconds"]["paper's model", "ResNet-20", "Dense"]
    assert seconds["Dense"]["ResNet-20"] / model == pytest.approx(2.32, abs=0.01)
    implied = tables.throughput(arrange("gtopk", [])).set_index(["algorithm", "model"])["mbit"]
    assert implied["Dense"].max() < 100  # less than a tenth of 1 Gbit/s
    assert implied[["Top-k", "gTop-k"]].max() < implied["Dense"].min()
    for name in MODELS:  # with that bandwidth equation (5) gives Table VII's iteration
        alone, beta = every["computation_s"]["paper", name, "Dense"], 8e-6 / implied["Dense", name]
        assert alone + 62 * alpha + 62 / 32 * 4 * PARAMETERS[name] * beta == pytest.approx(seconds["Dense"][name])
    assert every["percent"]["paper", "ResNet-20", "gTop-k"] == pytest.approx(90.1, abs=0.1)


def test_released_measurements_agree_with_table_vii_but_for_one_and_with_the_testbed():
    every = published.released().query("workers == @MOST").set_index(["model", "algorithm"])
    for model, algorithm in product(MODELS, ALGORITHMS):
        printed = quoted("gtopk").value("Table VII", model, algorithm, "throughput, P = 32")
        rate = MOST * every["batch"][model, algorithm] / every["seconds"][model, algorithm]
        assert (rate == pytest.approx(printed, rel=0.02)) == ((model, algorithm) != ("VGG-16", "gTop-k"))
    parts = every.xs("gTop-k", level="algorithm")
    assert (parts[published.PARTS].sum(axis=1) / parts["seconds"]).between(0.98, 1.07).all()
    for model in MODELS:  # the range of the testbed's selection
        assert 1.499e-9 <= parts["compression"][model] / (4 * PARAMETERS[model]) <= 1.574e-9


# --- its functions on changed runs


def test_a_selection_on_a_gpu_is_over_that_on_the_cpu(page):
    runs = page.results.shown["fig11", "measured"].records.values()

    def with_rows(change):
        changes = ({"found": run.probe.found | {"rows": change(run.probe.found["rows"])}} for run in runs)
        return Runs.of(run.changed(run.probe.model_copy(update=of)) for run, of in zip(runs, changes, strict=True))

    def on_cpu(rows):
        return [row for row in rows if row["device"].lower().startswith("cpu")]

    def on_both(rows):
        made_up = [row | {"device": "NVIDIA Synthetic", "share": row["share"] / 20} for row in on_cpu(rows)]
        return on_cpu(rows) + made_up

    assert "both CPU and GPU" in derived.gpu_gain(with_rows(on_cpu), "VGG-16").reason
    gains = derived.gpu_gain(with_rows(on_both), "VGG-16").values
    assert gains and all(gain == pytest.approx(20) for gain in gains.values())


def test_a_figure_shows_the_best_guess_with_the_range_of_the_claim_that_it_names(page):
    """VGG-16's best guess lies outside of that range, so the claim has the median draw."""
    shown = page.specs.rows(page.specs.shown.figures["speedups"])
    judged = page.results.claims("vgg16-over-dense", "fig10")
    ours = shown[(shown["over"] == "over Dense") & (shown["model"] == "VGG-16")].set_index("kind")
    for claim in judged:
        bar, known = ours.loc[claim.kind], claim.estimate
        assert (bar["low"], bar["high"]) == (known.low, known.high)
        assert (bar["speedup"] == known.point) != known.median
    assert judged
