"""The gTop-k page: verdict computations on synthetic summaries, every figure and table, any subset of results."""

from __future__ import annotations

from itertools import product

import pytest
import yaml

from repro.common.errors import InputError
from repro.common.paths import CONFIGS
from repro.experiment import config
from repro.reports import compute_scaling, probes, verdicts
from repro.reports.claims import read_claims
from repro.reports.gtopk import frames_contradictions
from repro.reports.gtopk.experiments import (
    CONSERVATION,
    CONVERGENCE,
    FIG5_RESNET20,
    FIG7_LSTM,
    HEADLINES,
    PARAMETERS,
    SHOWN,
    SWEEPS,
    TRAINING,
    files,
)
from repro.reports.gtopk.published import of_model, of_tables, published
from repro.reports.gtopk.section_convergence import difference
from repro.reports.reference import read as read_reference
from repro.reports.scaling import ALGORITHMS, MODELS, of_runs
from tests.reports.data.gtopk import (
    collectives,
    links,
    message_times,
    scaled,
    selections,
    sweep,
    training,
)
from tests.reports.data.papers import Judge
from tests.reports.data.summaries import labels

judged = Judge("gtopk")
CLAIMS, gathered = judged.claims, judged.gathered


# --- the files


def test_claims_and_reference_agree_with_each_other_and_with_the_experiments():
    content = read_claims("gtopk")
    assert content.claims and content.deviations and content.contradictions
    assert {claim.experiment for claim in content.claims} <= set(SHOWN) and set(HEADLINES) <= set(CLAIMS)
    paper = published(read_reference("gtopk"))
    assert (paper.alpha_s, paper.beta_s) == pytest.approx((0.436e-3, 9e-9))
    for model in MODELS:
        for algorithm in ALGORITHMS:
            claim = CLAIMS[f"{model.lower().replace('-', '')}-throughput-{algorithm.lower().replace('-', '')}"]
            assert claim.low == claim.high == paper.throughput[model, algorithm]
        for over in ("Dense", "Top-k"):
            claim = CLAIMS[f"{model.lower().replace('-', '')}-over-{over.lower().replace('-', '')}"]
            assert claim.low == paper.ratios[model, over] and claim.unit == "x"
    parameters = {c.arguments["parameters"] for c in content.claims if c.compute == "step_speedup"}
    assert parameters == set(PARAMETERS.values())


def test_the_experiments_files_have_the_page_s_variants_and_programs():
    folder = CONFIGS / "experiment" / "gtopk"
    read = {path.stem: yaml.safe_load(path.read_text()) for path in folder.glob("*.yaml")}
    assert set(SHOWN) == set(SWEEPS) | {experiment.name for experiment in TRAINING}
    for experiment in TRAINING:
        assert read[experiment.name]["figure"] == experiment.name
        assert set(labels(f"gtopk/{experiment.name}")) == set(experiment.variants), experiment.name
    for name, program in SWEEPS.items():
        for file in files(name):
            assert read[file]["figure"] == name and read[file].get("program", "train") == program
    for model, file in zip(MODELS, files("fig10"), strict=True):
        varied = [variant.factors for variant in config.own_variants(f"gtopk/{file}")]
        assert {of["model"] for of in varied} == {model}
        several = {of["workers"] for of in varied} - {1}
        points = {(of["method"], of["workers"]) for of in varied}
        assert points == {("Dense", 1), *product(ALGORITHMS, several)}
    assert set(CONVERGENCE) == {experiment.name for experiment in TRAINING}


# --- verdict computations


def test_the_paper_s_tables_hold_its_claims_and_its_time_model_does_not():
    paper = published(read_reference("gtopk"))
    table, model = of_tables(paper), of_model(paper)
    speedup = compute_scaling.ON_STEPS["scaling_speedup"]
    assert speedup(table, over="Dense", take="average") == pytest.approx(6.708, abs=1e-3)
    assert speedup(table, over="Top-k", take="average") == pytest.approx(1.405, abs=1e-3)
    assert verdicts.label(CLAIMS["over-dense-average"], 6.708) == "matches"
    found = frames_contradictions.unexplained(paper, model, None, PARAMETERS)
    dense = found[found["algorithm"] == "Dense"].set_index("model")
    assert dense.loc["ResNet-20", "time_model_over_paper"] == pytest.approx(2.32, abs=0.01)
    assert dense.loc["AlexNet", "time_model_over_paper"] == pytest.approx(11.3, abs=0.05)
    # what is implied explains the table: with that bandwidth equation (5) gives its iteration
    for name in MODELS:
        beta = 8e-6 / dense.loc[name, "implied_mbit"]
        seconds = paper.iteration_s[name] + 62 * paper.alpha_s + 62 / 32 * 4 * PARAMETERS[name] * beta
        assert seconds == pytest.approx(table.seconds[name, "Dense", 32])
    assert table.efficiency("ResNet-20", "gTop-k", 32) == pytest.approx(0.901, abs=1e-3)
    arithmetic = frames_contradictions.arithmetic(paper).set_index("model")
    again = arithmetic["g/d from the row"]
    assert again["AlexNet"].startswith("12.95") and again["average"].startswith("6.708")


def test_verdicts_on_scaling_come_from_the_runs():
    runs = sweep()
    one = judged("vgg16-throughput-gtopk", runs)
    assert one.ours.median == pytest.approx(32 * 128 / (0.097 + 4 * PARAMETERS["VGG-16"] * 1.5e-9 + 0.01497), rel=1e-3)
    assert one.label == "differs" and judged("dense-worst", runs).label == "matches"
    least = judged("over-dense-least", runs)
    assert least.label == "same direction" and "ResNet-20" in least.note and "AlexNet" in least.note
    assert judged("topk-small", runs).ours.median == 1
    assert judged("vgg16-compression-comparable", runs).ours.median == pytest.approx(0.911, abs=1e-3)
    assert judged("resnet50-overheads-small", runs).label == "matches"
    assert judged("vgg16-communication-large", runs).label == "differs"
    assert judged("gtopk-stable", runs).ours.median > 1
    few = [run for run in runs if not run["setting"].startswith("AlexNet")]
    assert "no results with 32 workers for AlexNet, gTop-k; AlexNet, Dense" in judged("over-dense-least", few).text
    assert judged("vgg16-over-dense", few).label == "same direction"
    assert of_runs([scaled("VGG-16", "Dense", 4)]).throughput("VGG-16", "Dense", 2) is None
    assert judged("over-dense-least", [], "measured").text == "not attempted (no results)"


def test_verdicts_on_convergence_compare_losses_and_metrics():
    runs = [training(FIG5_RESNET20, name, "measured", seed) for name in ("Dense", "gTop-k", "Top-k") for seed in (0, 1)]
    gap = judged("resnet20-loss", runs, "measured")
    base, one = (runs[i]["curve"] for i in (0, 2))
    fallen = base[1]["loss"] - base[-1]["loss"]  # at iteration 0 there is no loss yet
    assert gap.ours.median == pytest.approx((one[-1]["loss"] - base[-1]["loss"]) / fallen, rel=0.02)
    assert gap.label == "matches" and "provisional (2 of 5 seeds)" in gap.text
    assert judged("extra-computation-small", runs, "measured").ours.median == 0
    flat = [run | {"curve": run["curve"][:2]} for run in runs]
    assert "did not fall" in judged("resnet20-loss", flat, "measured").text
    short = [runs[0], runs[2] | {"iterations": 9}]
    assert "different numbers of iterations" in judged("resnet20-loss", short, "measured").text
    words = [training(FIG7_LSTM, name, "measured") for name in ("Dense", "gTop-k")]
    assert judged("lstm-perplexity", words, "measured").label == "matches"
    worse = [words[0], words[1] | {"final": words[1]["final"] | {"perplexity": 1000.0}}]
    assert judged("lstm-perplexity", worse, "measured").label == "differs"
    standin = [run | {"dataset": run["dataset"] | {"standin": True}} for run in words]
    assert judged("lstm-perplexity", standin, "measured").text == "not attempted (stand-in data)"


def test_lost_gradients_are_a_share_of_what_was_sent():
    runs = [training(CONSERVATION, name, "simulated") for name in CONSERVATION.variants]
    lost = judged("nothing-lost", runs)
    assert lost.ours.median == pytest.approx(0.03) and lost.label == "same direction"
    none = [run | {"counters": {}} for run in runs]
    assert "no masses counted" in judged("nothing-lost", none).text
    group = gathered(runs).training["conservation"]["simulated"]
    assert "one seed says nothing" in difference(group)
    two = [*runs, *(training(CONSERVATION, name, "simulated", 1) for name in CONSERVATION.variants)]
    assert "better in every seed" in difference(gathered(two).training["conservation"]["simulated"])


def test_verdicts_on_the_network_come_from_the_probes():
    runs = [*collectives(), *collectives("measured", 1.2), message_times(), message_times(testbed="here", beta=1e-10)]
    for name in ("dense", "topk", "gtopk"):
        assert judged(f"table1-{name}", runs).ours.median == pytest.approx(1)
        assert judged(f"table1-{name}", runs, "measured").label == "same direction"
    assert judged("gtopk-logarithmic", runs).ours.median == pytest.approx(1)
    assert judged("topk-linear", runs).label == "matches"
    assert judged("few-workers-topk", runs).ours.median == pytest.approx(8.94 / 6.27, rel=0.01)
    assert judged("many-workers-gtopk", runs).ours.median == pytest.approx(2.59, abs=0.01)
    assert judged("many-workers-gtopk", runs, "measured").text == "not attempted (not run with 32 workers)"
    for name in ("advantage-with-workers", "advantage-with-size", "two-words", "message-reduction"):
        assert judged(name, runs).label == "matches", name
    # of two testbeds that were measured the paper's network counts
    beta = judged("beta", runs, "measured")
    assert beta.ours.median == pytest.approx(8.4e-6) and beta.label == "matches" and beta.note == "shaped/1g"
    assert judged("alpha", runs, "measured").label == "differs"
    assert judged("alpha-beta-linear", runs, "measured").label == "matches"


def test_verdicts_on_selection_and_on_links_find_device_and_model():
    runs = [selections(), selections("NVIDIA Synthetic", 2e-10), links(2), links(4)]
    share = judged("vgg16-selection-cpu", runs, "measured")
    assert share.ours.median == pytest.approx(4e-9 * PARAMETERS["VGG-16"] / 0.097) and share.label == "matches"
    assert "cpu" in share.note and judged("vgg16-selection-gpu", runs, "measured").label == "differs"
    assert judged("gpu-selects-faster", runs, "measured").ours.median == pytest.approx(20)
    alone = judged("gpu-selects-faster", runs[:1], "measured")
    assert alone.text == "not attempted (no exact selection of AlexNet on both CPU and GPU)"
    assert judged("vgg16-links-over-dense", runs, "measured").label == "matches"
    assert "no steps of gTop-k and Dense" in judged("vgg16-links-over-dense", [links(2)], "measured").text


def test_a_broken_result_of_a_new_probe_is_said():
    for one in (message_times(), collectives()[0], selections()):
        assert probes.problem(one) is None
        entry = one["result"].get("rows", one["result"].get("points"))[0]
        entry.pop("bytes", entry.pop("elements", None))
        assert "missing in result." in probes.problem(one)


def test_a_broken_reference_is_one_line(tmp_path):
    path = tmp_path / "gtopk.csv"
    path.write_text('a,"b\n')
    with pytest.raises(InputError, match="not a readable table"):
        read_reference("gtopk", path)
