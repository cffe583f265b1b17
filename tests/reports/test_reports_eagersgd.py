"""The eager-SGD page: verdict computations on synthetic summaries, every figure and table, any subset of results."""

from __future__ import annotations

import math

import pytest
import yaml

from repro.common.errors import InputError
from repro.common.paths import CONFIGS
from repro.reports import compute_eager, curves, probes, style
from repro.reports.claims import read_claims
from repro.reports.eagersgd import (
    HEADLINES,
    frames_collectives,
    frames_contradictions,
    frames_guarantees,
    frames_imbalance,
    frames_training,
)
from repro.reports.eagersgd.experiments import (
    DEEP500,
    FIG9,
    FIG10,
    FIG10_PADDED,
    FIG12,
    FIG13,
    HOROVOD,
    MAJORITY,
    OPEN,
    PROBES,
    QUORUM,
    SHOWN,
    SOLO,
    TRAINING,
    files,
)
from repro.reports.eagersgd.published import BARS, Published
from repro.reports.groups import Group, groups, key_of
from repro.reports.reference import read as read_reference
from tests.reports.data import eagersgd as made
from tests.reports.data.papers import Judge
from tests.reports.data.summaries import labels, make

judged = Judge("eagersgd")
CLAIMS, gathered = judged.claims, judged.gathered
PAPER = Published(read_reference("eagersgd"))


# --- the files


def test_claims_and_reference_agree_with_each_other_and_with_the_experiments():
    content = read_claims("eagersgd")
    assert content.claims and content.deviations and content.contradictions
    assert {claim.experiment for claim in content.claims} <= set(SHOWN) and set(HEADLINES) <= set(CLAIMS)
    numbers = {
        "length-sd": ("Figure 2", "lengths", "UCF101", "sd"),
        "solo-latency": ("Figure 9", "microbenchmark", "solo", "latency reduction over MPI_Allreduce"),
        "majority-nap": ("Figure 9", "microbenchmark", "majority", "NAP"),
        "hyperplane-solo-steps": ("Figure 10", "200 ms", SOLO, "throughput"),
        "ratio-strong-scaling": ("Figure 10", "400 ms", SOLO, "strong scaling on 8 nodes"),
        "resnet50-460-horovod": ("Figure 11", "460 ms", SOLO, "speed-up over Horovod"),
        "resnet50-weak-scaling": ("Figure 11", "460 ms", SOLO, "weak scaling on 64 nodes"),
        "resnet50-horovod-top1": ("Figure 11", "all", HOROVOD, "test top-1"),
        "resnet32-majority-speedup": ("Figure 12", "50 to 400 ms", MAJORITY, "speed-up over Synch-SGD"),
        "ucf101-solo-best-top1": ("Figure 13", "all", SOLO, "test top-1, best run"),
        "ucf101-majority-train-top5": ("Figure 13", "all", MAJORITY, "train top-5"),
        "ucf101-one-node-128": ("Figure 13", "one node", "batch size 128", "training time of 50 epochs"),
        "ucf101-majority-weak": ("Figure 13", "8 nodes", MAJORITY, "weak scaling"),
    }
    for name, row in numbers.items():
        assert CLAIMS[name].low == CLAIMS[name].high == PAPER.value(*row), name
    for ms in (200, 300, 400):
        assert CLAIMS[f"padded-{ms}"].low == PAPER.speedup("Figure 10", f"{ms} ms")
    for first, figure in (("lstm", "Figure 2"), ("transformer", "Figure 3"), ("cloud", "Figure 4")):
        printed = PAPER.statistics(figure, "runtimes")
        for statistic in ("min", "mean", "sd", "max"):
            assert CLAIMS[f"{first}-{statistic}"].low == pytest.approx(printed[statistic] / 1e3)
        assert CLAIMS[f"{first}-sd-over-mean"].low == pytest.approx(printed["sd"] / printed["mean"], abs=1e-4)
    variants = {name for experiment in TRAINING for name in experiment.variants}
    for claim in content.claims:
        for key in ("setting", "over"):
            name = claim.arguments.get(key)
            assert name is None or name in variants or name in ("mean", "majority"), claim.id
    assert {row for bars in BARS.values() for row in bars} <= variants
    with pytest.raises(InputError, match=r"reference/eagersgd\.csv: no row of Table 1, none, all, epochs"):
        PAPER.table1("none", "epochs")


def test_the_experiments_files_have_the_page_s_variants_and_programs():
    folder = CONFIGS / "experiment" / "eagersgd"
    read = {path.stem: yaml.safe_load(path.read_text()) for path in folder.glob("*.yaml")}
    assert set(SHOWN) == set(PROBES) | {experiment.name for experiment in TRAINING}
    assert set(read) == {file for name in SHOWN for file in files(name)}
    for experiment in TRAINING:
        one, named = read[experiment.name], set(labels(f"eagersgd/{experiment.name}"))
        assert one["figure"] == experiment.name and set(experiment.variants) <= named, experiment.name
        others = named - set(experiment.variants)
        assert experiment.name in OPEN or all(name.startswith("Single node") for name in others), others
        testbeds = list(one["testbeds"])
        assert ("measured" in experiment.kinds) == ("here" in testbeds), experiment.name
        assert ("simulated" in experiment.kinds) == any(name.startswith("paper/") for name in testbeds)
    for name, program in PROBES.items():
        for file in files(name):
            assert read[file]["program"] == program


def test_the_paper_s_parameters_are_those_of_the_models():
    from repro import models

    for task, name, shape, classes, options in (
        ("Hyperplane regression", "hyperplane", (8192,), 1, {}),
        ("Cifar-10", "resnet32", (3, 32, 32), 10, {}),
        ("ImageNet", "resnet50", (3, 224, 224), 1000, {"outputs": 1001}),
        ("UCF101", "lstm_ucf101", (187, 2048), 101, {}),
    ):
        model = models.build(name, shape, classes, 0, "meta", **options)
        assert sum(p.numel() for p in model.parameters()) == PAPER.table1(task, "parameters"), name


# --- groups


def test_variants_may_differ_in_what_an_experiment_says_and_in_nothing_else():
    runs = [s for s in made.hyperplane(1) if s["experiment"] == FIG10_PADDED.name and s["kind"] == "simulated"]
    group = gathered(runs).training[FIG10_PADDED.name]["simulated"]
    assert len(group.covered()) == 8 and compute_eager.alone(group, 2048)[0]["setting"] == "Single node"
    assert len(groups(runs, tuple(group.variants))) == 2  # the single node is apart
    other = runs[0] | {"dataset": runs[0]["dataset"] | {"name": "another"}}
    assert key_of(other, FIG10_PADDED.varies) != key_of(runs[0], FIG10_PADDED.varies)
    network = runs[0] | {"testbed_model": runs[0]["testbed_model"] | {"alpha_s": 1.0}}
    assert key_of(network, FIG10_PADDED.varies) != key_of(runs[0], FIG10_PADDED.varies)
    assert gathered([runs[0] | {"setting": "mine"}]).others[0].first["setting"] == "mine"


def test_measured_and_simulated_horovod_are_the_same_variant():
    both = [made.run(FIG13, HOROVOD, kind) for kind in ("measured", "simulated")]
    assert {one["strategy"] for one in both} == {"horovod", "wfbp"}
    assert set(gathered(both).training[FIG13.name]) == {"measured", "simulated"}


def test_results_of_fig9_measured_stand_with_fig9():
    found = gathered([made.partial(), made.partial("measured", experiment="fig9-measured")])
    assert set(found.probes[FIG9]) == {"measured", "simulated"} and not found.others


def test_looks_do_not_depend_on_delays_and_tell_quorums_apart():
    def looks(experiment, *variants):
        runs = tuple(made.run(experiment, variant) for variant in variants)
        of = frames_training.methods(Group((), runs, variants))
        drawn = tuple(dict.fromkeys(method for method, _ in of.values()))
        return [style.look(of[variant][0], drawn) for variant in variants], curves.handles(drawn)

    found, handles = looks(FIG10, f"{SOLO} 200 ms", f"{SOLO} 400 ms", f"{DEEP500} 200 ms")
    assert found[0] == found[1] == style.VARIANTS[SOLO] != found[2]
    assert len(handles) == 2
    assert looks(QUORUM, "eager-SGD (quorum 4)")[0] == [style.VARIANTS["eager-SGD (quorum)"]]
    several, _ = looks(QUORUM, "eager-SGD (quorum 4)", "eager-SGD (quorum 8)")
    assert several[0] != several[1]


# --- verdict computations


def test_verdicts_on_throughput_and_scaling():
    runs = made.hyperplane(3)
    one = judged("ratio-200", runs)
    assert one.ours.median == pytest.approx(0.6 / 0.425, rel=0.01) and one.label == "matches"
    assert judged("hyperplane-200", runs, "measured").label == "same direction"
    assert judged("ratio-strong-scaling", runs, "measured").ours.median == pytest.approx(1.5625 / 0.45, rel=0.01)
    assert "8 workers over one with batch 2048" in judged("ratio-strong-scaling", runs).note
    assert judged("hyperplane-single-node", runs).ours.median == pytest.approx(0.64, rel=0.01)
    assert judged("padded-eager-stable", runs).label == "matches"
    assert judged("padded-sync-worse", runs).label == "matches"
    several = [run for run in runs if run["workers"] > 1]
    assert "no run of one worker with batch 2048" in judged("ratio-strong-scaling", several).text
    assert judged("ratio-loss-equivalent-300", runs).ours.median == pytest.approx(1)
    weak = judged("resnet50-weak-scaling", made.resnet50())
    assert weak.ours.median == pytest.approx(64 * 0.64 / (0.64 + 0.46 / 64)) and weak.label == "same direction"
    seconds = judged("ucf101-one-node-16", made.scaling())
    assert seconds.ours.median == pytest.approx(1.15 / 16 * 9537 * 50) and seconds.label == "matches"
    assert judged("ucf101-solo-strong", made.scaling()).ours.median == pytest.approx(1.7 / 1.3)


def test_verdicts_on_scores_and_synchronisation():
    real = {"name": "ucf101", "standin": False}
    runs = [run | {"dataset": run["dataset"] | real} for run in made.curves(3)]
    assert judged("ucf101-solo-lower", runs).label == "matches"
    assert judged("ucf101-majority-equal", runs).label == "matches"
    best = judged("ucf101-horovod-best-top1", runs)
    assert "best of 3 seeds" in best.note and best.ours.median > judged("ucf101-horovod-top1", runs).ours.median
    without = [run | {"final": {k: v for k, v in run["final"].items() if k != "top5"}} for run in runs]
    assert f"no top5 was evaluated for {HOROVOD}" in judged("ucf101-horovod-top5", without).text
    assert judged("ucf101-horovod-top1", made.curves(1)).text == "not attempted (stand-in data)"
    assert "timing only" in judged("resnet50-solo-top1", made.resnet50()).text
    gain = judged("synchronisation-gain", made.synchronisation(3))
    assert gain.ours.median == pytest.approx(0.012) and gain.label == "matches" and "no synchronisation" in gain.note
    alone = [run for run in made.synchronisation(1) if not run["setting"].endswith("no synchronisation")]
    assert "no results of eager_solo without" in judged("synchronisation-gain", alone).text


def test_what_rounds_held_is_counted_and_lost_gradients_are_seen():
    runs = made.hyperplane(1)
    assert judged("conserved-fig10", runs).ours.median == 1 and judged("conserved-fig10", runs).label == "matches"
    broken = [dict(run) for run in runs]
    for run in broken:
        if run["setting"] == f"{SOLO} 300 ms":
            run["counters"] = run["counters"] | {"pending": 0.0}
    lost = judged("conserved-fig10", broken)
    assert lost.ours.median == pytest.approx(304 / 320) and lost.label == "differs"
    half = judged("majority-half-fig10", runs)
    assert half.ours.median == pytest.approx(0.9) and half.note == "NAP 7.20 of 8 ranks" and half.label == "matches"
    assert judged("staleness-bound", runs, "measured").ours.median == 1  # 400 ms of delay on steps of 20 ms
    assert judged("staleness-bound", runs).label == "same direction"
    assert judged("same-output-fig13", made.curves(1)).ours.median == pytest.approx(0.025)
    plain = [run | {"counters": {}, "staleness": []} for run in runs]
    assert "no eager run counted its rounds" in judged("conserved-fig10", plain).text
    assert "no rounds counted" in judged("majority-half-fig10", plain).text
    run = made.run(FIG10, f"{SOLO} 400 ms", compute=0.3, delay=0.4)
    assert compute_eager.rounds_of_a_delay(run) == 3 and compute_eager.largest_delay(make()) is None
    table = frames_guarantees.counters(gathered(runs).training[FIG10.name]["measured"]).set_index("setting")
    row = table.loc[f"{SOLO} 200 ms"]
    assert (row["accepted"], row["pending"], row["NAP"], row["largest"]) == ("304", "16", "6.40", "10")
    assert float(row["accounted for"]) == 1 and row["one delay explains"] == "11"
    ages = frames_guarantees.staleness(gathered(runs).training[FIG10.name]["measured"])
    assert ages.groupby(["setting", "rank"])["share"].sum().round(9).eq(1).all()
    assert not ages["setting"].str.startswith("Synch").any()


def test_verdicts_on_probes():
    runs = made.probes()
    majority = judged("majority-latency", runs)
    rows = {(r["collective"], r["bytes"]): r["latency_s"]["mean"] for r in made.partial()["result"]["rows"]}
    sizes = {size for _, size in rows}
    mean = sum(rows["allreduce", size] / rows["majority", size] for size in sizes) / len(sizes)
    assert majority.ours.median == pytest.approx(mean) and majority.label == "same direction"
    assert judged("solo-nap", runs, "measured").label == "matches"
    assert judged("majority-nap", runs).ours.median == 16.5
    assert judged("solo-nap", [made.partial(ranks=8)]).text == "not attempted (not run with 32 ranks)"
    assert judged("lstm-proportional", runs, "measured").ours.median == pytest.approx(1)
    assert judged("length-median", runs, "measured").label == "matches"
    assert judged("length-median", [made.lengths(median=168)], "measured").label == "same direction"
    assert "the lengths are generated" in judged("length-median", [made.lengths(standin=True)], "measured").text
    assert "no lengths of batches" in judged("lstm-proportional", [
        made.batches("fig2-runtimes", 0.1, 0.0, lengths=False)], "measured").text  # fmt: skip


def test_linear_skew_alone_gives_the_expected_waits():
    P = 32
    waits = {"solo": 0.0, "allreduce": sum(P - 1 - i for i in range(P)) / P / (P - 1)}
    waits["majority"] = sum(max(0, d - i) for d in range(P) for i in range(P)) / P**2 / (P - 1)
    for name, of in frames_collectives.expected(P).items():
        assert of["wait"] == pytest.approx(waits.get(name, 0.5))
    assert frames_collectives.expected(P)["majority"]["nap"] == sum(d + 1 for d in range(P)) / P


def test_a_broken_result_of_a_probe_is_said():
    for one, entry, missing in (
        (made.partial(), lambda r: r["rows"][0], "latency_s"),
        (made.batches("fig3-runtimes", 0.1, 0.01), lambda r: r["statistics"], "sd"),
        (made.lengths(), lambda r: r, "splits"),
    ):
        assert probes.problem(one) is None
        entry(one["result"]).pop(missing)
        assert f"{missing}" in probes.problem(one)


# --- what does not add up


def test_contradictions_are_arithmetic_on_the_reference_table():
    table = frames_contradictions.table(PAPER, {"mean": 187.28, "median": 168}).set_index("what")
    assert table.loc["Hyperplane: strong scaling with 400 ms", "follows from its other numbers"].startswith("2.56")
    assert table.loc["ResNet-50: weak scaling with 460 ms", "off"] == "agrees"
    assert (
        table.loc["UCF101: longest video (from the mean runtime)", "follows from its other numbers"] == "517.1 frames"
    )
    assert table.loc["UCF101: strong scaling of solo", "off"] == "agrees"
    assert table.loc["UCF101: seconds of 50 epochs on one node with batch 16", "off"] == "+7 %"
    assert len(frames_contradictions.table(PAPER)) == len(table) - 2  # without lengths
    implied = frames_contradictions.implied_computation(PAPER)
    assert list(implied["computation, alone (s)"][:3]) == ["0.400", "0.400", "0.396"]


def test_table_1_says_where_a_model_of_another_size_ran():
    small = made.run(FIG12, DEEP500, "simulated", model={"name": "resnet32", "parameters": 7})
    table = frames_imbalance.table1(PAPER, gathered([small])).set_index("task")
    assert table.loc["Cifar-10", "equal"] == "no" and table.loc["ImageNet", "equal"] == "\N{EN DASH}"
    found = frames_training.throughput(gathered([small]).training[FIG12.name]["simulated"], "fig12", PAPER)
    assert len(found) == 1 and math.isnan(found["speedup"].iloc[0])
