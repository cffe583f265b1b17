"""The gTop-k page from the reference and from nothing; its arithmetic on made-up runs and on the paper's tables."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest

from repro.answers.claims.evidence import claims_of
from repro.answers.claims.verdict import BY_CONSTRUCTION, CONFIRMED, IN_DIRECTION
from repro.answers.pages import paper_page
from repro.answers.pages.files import Files
from repro.answers.pages.reference import quoted
from repro.answers.tables.results import arranged
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.reports.gtopk import derived, published, tables
from repro.reports.gtopk.published import ALGORITHMS, MODELS, MOST, PARAMETERS, WORLDS
from tests.reports.data.gtopk import TRAINING, collectives, links, message_times, scaled, selections, sweep, training
from tests.reports.data.planned import NOWHERE
from tests.support.configs import own_variants
from tests.support.records import record_of

FILE = claims_of("gtopk")
CLAIMS = {claim.id: claim for claim in FILE.claims}
EXPERIMENTS = {experiment.name: experiment for experiment in TRAINING}


@pytest.fixture
def page(reported):
    return reported("gtopk").page


def shown(page, name):
    """The rows behind a figure."""
    return pd.read_csv(page.files.out / "figures" / "gtopk" / f"{name}.csv")


# --- the page


def test_what_went_in_is_no_result(page):
    for name in ("alpha", "beta", "alpha-beta-linear", "table1-dense", "table1-topk", "table1-gtopk",
                 "gtopk-logarithmic", "many-workers-gtopk", "vgg16-compression-comparable"):  # fmt: skip
        assert page.one(name, "simulated").verdict.answer == BY_CONSTRUCTION, name
    assert page.one("beta", "measured").verdict.answer == BY_CONSTRUCTION  # the rate of the links is set
    for one in page.judged:  # no accuracy of one seed is confirmed
        assert one.claim.about != "accuracy" or one.verdict.answer not in (CONFIRMED, IN_DIRECTION), one.claim.id


def test_figures_show_the_runs_and_the_paper(page):
    runs = catalogue.table("runs", catalogue.runs("gtopk", reference_root()))
    printed = ~runs["testbed"].str.contains("congested")
    fig10 = runs[(runs["experiment"] == "fig10") & (runs["workers"] == MOST) & printed]
    steps = fig10.set_index(["kind", "factors.model", "factors.method"])["iteration_s"]
    step = steps["simulated"]
    bars = shown(page, "speedups").set_index(["over", "model", "kind"])["speedup"]
    for model, over in product(MODELS, ("Dense", "Top-k")):
        ours = bars[f"over {over}", model, "simulated"]
        assert ours == pytest.approx(step[model, over] / step[model, "gTop-k"])
        emulated = steps["emulated", model, over] / steps["emulated", model, "gTop-k"]
        assert bars[f"over {over}", model, "emulated"] == pytest.approx(emulated)
        assert bars[f"over {over}", model, "paper"] == published.speedup(model, over)
    parts = shown(page, "breakdown")
    total = parts.groupby(["model", "kind"])["seconds"].sum()
    batch = {model: quoted("gtopk").value("Table VI", model, "one GPU", "batch size") for model in MODELS}
    for model in MODELS:
        assert total[model, "simulated"] == pytest.approx(step[model, "gTop-k"])
        rate = quoted("gtopk").value("Table VII", model, "gTop-k", "throughput, P = 32")
        assert total[model, "paper"] == pytest.approx(MOST * batch[model] / rate)
    points = catalogue.table("points", catalogue.runs("gtopk", reference_root()))
    losses = points[points["run"].str.startswith("fig12-vgg16/")]["loss"].dropna()
    assert sorted(shown(page, "densities")["loss"]) == pytest.approx(sorted(losses))
    messages = shown(page, "messages")
    simulated, line = (messages[messages["kind"] == kind].groupby("bytes")["seconds"].median()
                       for kind in ("simulated", "paper's model"))  # fmt: skip
    assert simulated.tolist() == pytest.approx(line.tolist())


def test_without_results_it_shows_the_papers_numbers(tmp_path):
    paper_page.build("gtopk", tmp_path / "none", Files("gtopk", tmp_path / "out"))
    assert "12.8" in (tmp_path / "out" / "figures" / "gtopk" / "speedups.csv").read_text()


# --- the paper's own numbers


def test_the_paper_s_tables_contradict_its_time_model():
    every = tables.iterations(arranged("gtopk", [])).query("workers == @MOST").set_index(["kind", "model", "algorithm"])
    alpha, beta = published.alpha_beta()
    assert (alpha, beta) == pytest.approx((0.436e-3, 9e-9))
    seconds = every["seconds"]["paper"].unstack()
    assert (seconds["Dense"] / seconds["gTop-k"]).mean() == pytest.approx(6.708, abs=1e-3)
    assert (seconds["Top-k"] / seconds["gTop-k"]).mean() == pytest.approx(1.405, abs=1e-3)
    model = every["seconds"]["paper's model", "ResNet-20", "Dense"]
    assert seconds["Dense"]["ResNet-20"] / model == pytest.approx(2.32, abs=0.01)
    implied = tables.throughput(arranged("gtopk", [])).set_index(["algorithm", "model"])["mbit"]
    assert implied["Dense"].max() < 100  # less than a tenth of 1 Gbit/s
    assert implied[["Top-k", "gTop-k"]].max() < implied["Dense"].min()
    for name in MODELS:  # with that bandwidth equation (5) gives Table VII's iteration
        alone, beta = every["computation_s"]["paper", name, "Dense"], 8e-6 / implied["Dense", name]
        assert alone + 62 * alpha + 62 / 32 * 4 * PARAMETERS[name] * beta == pytest.approx(seconds["Dense"][name])
    assert every["percent"]["paper", "ResNet-20", "gTop-k"] == pytest.approx(90.1, abs=0.1)


def test_released_measurements_are_those_of_table_vii_but_for_one():
    every = published.released().query("workers == @MOST").set_index(["model", "algorithm"])
    for model, algorithm in product(MODELS, ALGORITHMS):
        seconds = every["seconds"][model, algorithm]
        printed = quoted("gtopk").value("Table VII", model, algorithm, "throughput, P = 32")
        rate = MOST * every["batch"][model, algorithm] / seconds
        same = rate == pytest.approx(printed, rel=0.02)
        assert same == ((model, algorithm) != ("VGG-16", "gTop-k")), (model, algorithm, rate, printed)
    parts = every.xs("gTop-k", level="algorithm")
    assert (parts[published.PARTS].sum(axis=1) / parts["seconds"]).between(0.98, 1.07).all()


def test_the_testbed_s_selection_lies_in_what_was_released():
    for model in MODELS:
        seconds = quoted("gtopk").value("Figure 11, released", model, "gTop-k", "compression, P = 32")
        assert 1.499e-9 <= seconds / (4 * PARAMETERS[model]) <= 1.574e-9


def test_claims_and_experiments_agree_with_the_paper_s_tables():
    for model, algorithm in product(MODELS, ALGORITHMS):
        claim = CLAIMS["-throughput-".join(name.lower().replace("-", "") for name in (model, algorithm))]
        printed = quoted("gtopk").value("Table VII", model, algorithm, "throughput, P = 32")
        assert claim.paper.low == claim.paper.high == printed
    for model in MODELS:
        plain = [variant.factors for variant in own_variants(f"gtopk/fig10-{model.lower().replace('-', '')}")]
        assert {of["workers"] for of in plain} == set(WORLDS)


# --- functions of claims, on made-up runs


def judged(name, runs, kind="simulated"):
    return arranged("gtopk", runs, NOWHERE).court.evidence(CLAIMS[name], kind)


def ours(name, runs, kind="simulated"):
    """The number of one seed."""
    return next(iter(judged(name, runs, kind).outcome.values.values()))


def test_scaling_is_computed_from_the_runs():
    runs = sweep()
    iteration = 0.097 + 4 * PARAMETERS["VGG-16"] * 1.5e-9 + 0.01497
    assert ours("vgg16-throughput-gtopk", runs) == pytest.approx(32 * 128 / iteration, rel=1e-3)
    each = [ours(f"{m}-over-dense", runs) for m in ("vgg16", "resnet20", "alexnet", "resnet50")]
    assert ours("over-dense-least", runs) == pytest.approx(min(each))
    assert ours("over-dense-average", runs) == pytest.approx(sum(each) / 4)
    assert ours("vgg16-compression-comparable", runs) == pytest.approx(0.911, abs=1e-3)
    assert ours("gtopk-stable", runs) > 1 > ours("topk-drops", runs)
    own = [
        run | {"variant": "mine", "factors": of} for run, of in zip(runs, ({}, runs[1]["factors"] | {"method": "M"}))
    ]
    every = tables.iterations(arranged("gtopk", [*runs, *own], NOWHERE))
    assert len(every[every["kind"] == "simulated"]) == len(runs)
    # records of before inputs were drawn
    ends = [run | {"key": f"{run['key']}; high", "factors": run["factors"] | {"input": "high"}} for run in sweep(9.0)]
    assert ours("vgg16-throughput-gtopk", [*ends, *runs]) == ours("vgg16-throughput-gtopk", runs)
    few = [run for run in runs if not run["variant"].startswith("AlexNet")]
    assert judged("over-dense-least", few).outcome.reason == "no results for AlexNet"


def test_convergence_compares_losses_and_metrics():
    runs = [
        training(EXPERIMENTS["fig5-resnet20"], name, "measured", seed)
        for name in ("Dense", "gTop-k", "Top-k")
        for seed in (0, 1)
    ]
    base, one = (runs[i]["curve"] for i in (0, 2))
    fallen = base[1]["loss"] - base[-1]["loss"]  # at iteration 0 there is no loss yet
    gap = (one[-1]["loss"] - base[-1]["loss"]) / fallen
    assert ours("resnet20-loss", runs, "measured") == pytest.approx(gap, rel=0.02)
    top1 = judged("resnet20-top1", runs, "measured")
    assert min(top1.repeated) < min(top1.values) and max(top1.repeated) > max(top1.values)
    assert ours("extra-computation-small", runs, "measured") == 0
    flat = [run | {"curve": run["curve"][:2]} for run in runs]
    assert not judged("resnet20-loss", flat, "measured").values  # it did not fall
    words = [training(EXPERIMENTS["fig7-lstm"], name, "measured") for name in ("Dense", "gTop-k")]
    worse = words[1] | {"final": words[1]["final"] | {"perplexity": 2 * words[0]["final"]["perplexity"]}}
    assert ours("lstm-perplexity", [words[0], worse], "measured") == pytest.approx(2)
    own = EXPERIMENTS["conservation"]
    lost = [training(own, name, "simulated") for name in own.variants]
    assert ours("nothing-lost", lost) == pytest.approx(0.03)
    none = judged("nothing-lost", [run | {"counters": {}} for run in lost])
    assert none.outcome.reason == "no counters.lost_mass was recorded"


def test_the_network_is_read_from_the_probes():
    runs = [*collectives(), *collectives("measured", 1.2), message_times(), message_times(testbed="here", beta=1e-10)]
    for name in ("table1-dense", "table1-topk", "table1-gtopk", "gtopk-logarithmic"):
        assert ours(name, runs) == pytest.approx(1)
    assert ours("table1-gtopk", runs, "measured") == pytest.approx(1.2)
    assert ours("few-workers-topk", runs) == pytest.approx(8.94 / 6.27, rel=0.01)
    assert ours("many-workers-gtopk", runs) == pytest.approx(2.59, abs=0.01)
    assert judged("many-workers-gtopk", runs, "measured").outcome.reason.startswith("no results for gtopk, 32")
    assert ours("advantage-with-workers", runs) > 1 < ours("advantage-with-size", runs)
    assert (ours("two-words", runs), ours("message-reduction", runs)) == pytest.approx((2, 500))
    assert ours("beta", runs, "measured") == pytest.approx(8.4e-6)  # of two testbeds the paper's network counts


def test_selection_and_links_find_device_and_model():
    runs = [selections(), selections("NVIDIA Synthetic", 2e-10), links(2), links(4)]
    assert ours("vgg16-selection-cpu", runs, "measured") == pytest.approx(4e-9 * PARAMETERS["VGG-16"] / 0.097)
    assert ours("gpu-selects-faster", runs, "measured") == pytest.approx(20)
    reason = judged("gpu-selects-faster", runs[:1], "measured").outcome.reason
    assert reason == "no exact selection of AlexNet on both CPU and GPU"
    assert ours("vgg16-links-over-dense", runs, "measured") > 1
    assert not judged("vgg16-links-over-dense", [links(2)], "measured").values


def at_bandwidths(methods, alpha_ms="0.436"):
    """Runs of the experiment bandwidth: method -> bandwidth -> seconds of a step."""
    return [
        scaled("VGG-16", method, MOST)
        | dict.fromkeys(("variant", "run", "key"), f"{method} {gbit}")
        | {"experiment": "bandwidth", "factors": {"method": method, "gbit": str(gbit), "alpha_ms": alpha_ms},
           "step": dict.fromkeys(("mean_s", "median_s", "min_s", "max_s"), seconds)}
        for method, steps in methods.items()
        for gbit, seconds in steps.items()
    ]  # fmt: skip


def test_the_crossing_is_where_gtopk_is_no_faster():
    runs = at_bandwidths({"Dense": {1: 4.0, 10: 0.5, 100: 0.25}, "gTop-k": dict.fromkeys((1, 10, 100), 1.0)})
    found = arranged("gtopk", runs, NOWHERE)
    group = found.shown["bandwidth", "simulated"]
    at = derived.crossing_gbit(group, "Dense", 0.436).values[0]
    assert at == pytest.approx(10 ** (2 / 3))  # two thirds of the way, between logarithms
    assert derived.crossing_gbit(group, "gTop-k", 0.436).values[0] == 1  # never faster: the least that was run
    faster = at_bandwidths({"Dense": dict.fromkeys((1, 100), 4.0), "gTop-k": dict.fromkeys((1, 100), 1.0)})
    always = arranged("gtopk", faster, NOWHERE).shown["bandwidth", "simulated"]
    assert derived.crossing_gbit(always, "Dense", 0.436).values[0] == 100
    assert derived.crossing_gbit(group, "Top-k", 0.436).reason.startswith("no results for Top-k")
    drawn = tables.bandwidth(found).set_index(["over", "gbit"])["speedup"]
    assert drawn["over Dense", 1.0] == 4.0 and len(drawn) == 3


def test_a_broken_result_of_a_probe_is_said():
    for one in (message_times(), collectives()[0], selections()):
        record_of(one)
        entry = one["result"].get("rows", one["result"].get("points"))[0]
        entry.pop("bytes", entry.pop("elements", None))
        with pytest.raises(ValueError, match=r"result\.found\.\w+\.0\.\w+: is missing"):
            record_of(one)
