"""The eager-SGD page: built from the reference, its numbers computed again; and its own arithmetic on made-up runs."""

from __future__ import annotations

import pandas as pd
import pytest

from repro.answers.claims.evaluate import judge
from repro.answers.claims.evidence import claims_of
from repro.answers.claims.verdict import CONFIRMED
from repro.answers.pages import paper_page
from repro.answers.pages.files import Files
from repro.answers.tables.results import arranged
from repro.core.errors import InputError
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.records.kinds import PADDED
from repro.reports.eagersgd import contradictions, derived
from repro.reports.eagersgd.contradictions import HOROVOD, MAJORITY, SOLO, of_table1
from repro.reports.eagersgd.tables import DEEP500, TABLES
from tests.reports.data import eagersgd as made
from tests.reports.data.eagersgd import FIG10, FIG12, FIG13, TRAINING
from tests.reports.data.planned import NOWHERE
from tests.support.configs import own_variants

FILE = claims_of("eagersgd")
CLAIMS = {claim.id: claim for claim in FILE.claims}


@pytest.fixture
def page(reported):
    return reported("eagersgd").page


def drawn(page, name):
    return pd.read_csv(page.files.out / f"figures/eagersgd/{name}.csv")


def gathered(summaries):
    return arranged("eagersgd", summaries, NOWHERE)


def judged(name, summaries, kind="simulated"):
    """The verdict on a claim from made-up runs alone; nothing was validated."""
    court = gathered(summaries).court
    return judge(CLAIMS[name], kind, court.evidence(CLAIMS[name], kind), FILE.effect(CLAIMS[name]))


# --- the page


def test_what_is_padded_says_so_and_is_no_headline(page):
    of = drawn(page, "fig10-speedups")
    padded = of[of["kind"] == PADDED]
    assert len(padded) and padded["source"].str.contains("padded").all()
    of = drawn(page, "fig10-losses")
    assert of.loc[of["kind"] == PADDED, "panel"].str.contains("padded").all()
    speaking = {one.claim.id for one in page.judged if one.kind == PADDED and one.ours}
    assert speaking and not any(CLAIMS[name].headline for name in speaking)


def test_findings_break_where_a_verdict_changes(page, tmp_path):
    other = FILE.findings[0].model_copy(update={"rests_on": {"majority-nap:simulated": "opposite"}})
    broken = paper_page.PaperPage.of("eagersgd", reference_root(), Files("eagersgd", tmp_path))
    broken.__dict__["file"] = FILE.model_copy(update={"findings": [other]})
    with pytest.raises(InputError, match="a finding rests on"):
        _ = broken.findings


def test_what_went_in_is_by_construction_or_consistent_with_it(page):
    restated = {name for one in FILE.restated for name in one.claims}
    assert restated <= set(CLAIMS)
    assert {"hyperplane-single-node", "resnet50-single-node", "lstm-mean", "ucf101-one-node-16"} <= restated
    for one in page.judged:
        if one.kind == "simulated" and one.ours and one.claim.id in restated:
            assert one.verdict.answer == "by construction"
        if one.kind == "simulated" and one.claim.experiment == "fig10-padded" and one.claim.about == "time":
            assert one.verdict.answer != CONFIRMED


def test_no_loss_that_rose_holds(page):
    for one in page.judged:
        if one.claim.about == "accuracy" and one.ours and one.claim.experiment.startswith("fig10"):
            least = 1.1 if one.claim.paper.unit == "x" else 10
            assert one.verdict.answer != CONFIRMED or one.ours.point < least, one.claim.id


def test_figures_hold_what_the_runs_and_the_paper_say(page):
    found = catalogue.runs("eagersgd", reference_root())
    runs = {(r.summary["experiment"], r.summary["kind"], r.summary["variant"]): r.summary for r in found}

    def step(*key):
        return runs[key]["final"]["train_s"] / runs[key]["iterations"]

    of = drawn(page, "speedups").set_index(["case", "source"])["speedup"]
    ours = step("fig13", "simulated", HOROVOD) / step("fig13", "simulated", MAJORITY)
    assert of[f"Figure 13: {MAJORITY} over Horovod", "simulated"] == pytest.approx(ours)
    assert of[f"Figure 13: {MAJORITY} over Horovod", "paper"] == 1.27
    of = drawn(page, "fig10-speedups").set_index(["delay", "source"])["speedup"]
    ours = step("fig10-padded", PADDED, f"{DEEP500} 400 ms") / step("fig10-padded", PADDED, f"{SOLO} 400 ms")
    assert of["400 ms", "measured, padded, step of 0.61 s"] == pytest.approx(ours)
    latency = drawn(page, "fig9").query("measure == 'latency'").set_index(["kind", "collective", "bytes"])["value"]
    probes = [r.summary for r in found if r.summary["experiment"] == "fig9"]
    assert {probe["kind"] for probe in probes} == {"simulated", "emulated"}
    for probe in probes:
        for row in probe["result"]["rows"]:
            if row["ranks"] == 32 and row["collective"] in ("allreduce", "solo", "majority"):
                ours = latency[probe["kind"], row["collective"], row["bytes"]]
                assert ours == pytest.approx(1e3 * row["latency_s"]["mean"])
    last = drawn(page, "fig12").groupby("variant")["top1"].last()
    for variant in last.index:
        assert last[variant] == pytest.approx(runs["fig12", "simulated", variant]["final"]["top1"])


def test_without_results_it_shows_the_papers_numbers(tmp_path):
    pages, _ = paper_page.build("eagersgd", tmp_path / "none", Files("eagersgd", tmp_path / "out"))
    assert "2.562" in pages[0].read_text()


@pytest.mark.parametrize("some", [
    made.resnet50()[:1], made.scaling()[-1:], [made.partial()], [made.lengths()], made.synchronisation(1)[:1],
    [made.batches("fig3-runtimes", 0.1, 0.01, lengths=False)], [made.run(FIG13, MAJORITY, "simulated")],
], ids=["fig11", "scaling", "fig9", "lengths", "sync", "fig3", "fig13"])  # fmt: skip
def test_every_table_is_made_of_one_result(some):
    found = gathered(some)
    assert len(found.shown) == 1
    for name, table in TABLES.items():
        assert table(found) is not None, name


# --- which runs it shows


def own(experiment):
    return {variant.label for variant in own_variants(f"eagersgd/{experiment}")}


def test_claims_name_variants_and_experiments_that_there_are():
    variants = {experiment.name: set(experiment.variants) for experiment in TRAINING}
    for claim in (claim for claim in FILE.claims if claim.value):
        value = claim.value
        named = [of.get("variant") for _, of in value.sides] + [value.arguments.get("variant")]
        for name in filter(None, named):
            assert name in (variants.get(claim.experiment) or own(claim.experiment)), claim.id


def test_a_strategy_of_one_s_own_stands_beside_the_papers():
    runs = [made.run(FIG12, variant, "simulated") for variant in FIG12.variants]
    own = runs[0] | {"variant": "mine", "strategy": "of_mine"}
    found = gathered([*runs, own])
    assert list(found.shown[FIG12.name, "simulated"].frame["variant"]) == [*FIG12.variants, "mine"]


def test_the_paper_s_parameters_are_those_of_the_models():
    from repro import models

    for task, name, shape, classes, options in (
        ("Hyperplane regression", "hyperplane", (8192,), 1, {}),
        ("Cifar-10", "resnet32", (3, 32, 32), 10, {}),
        ("ImageNet", "resnet50", (3, 224, 224), 1000, {"outputs": 1001}),
        ("UCF101", "lstm_ucf101", (187, 2048), 101, {}),
    ):
        model = models.build(name, shape, classes, 0, "meta", **options)
        assert sum(p.numel() for p in model.parameters()) == of_table1(task, "parameters"), name


# --- its own arithmetic


def test_what_rounds_held_is_counted_and_lost_gradients_are_seen():
    runs = made.hyperplane(1)
    assert judged("conserved-fig10", runs).ours.point == 1
    lost = [run | {"counters": run["counters"] | {"pending": 0.0}} if run["counters"] else run for run in runs]
    assert (
        judged("conserved-fig10", lost).ours.point < 1 and judged("conserved-fig10", lost).verdict.answer == "refuted"
    )
    half = judged("majority-half-fig10", runs)
    assert half.ours.point == pytest.approx(0.9)
    assert judged("staleness-bound", runs, "measured").ours.point == 1  # 400 ms of delay on steps of 20 ms
    assert judged("same-output-fig12", made.curves(1)).ours.point == pytest.approx(0.025)
    plain = [run | {"counters": {}, "staleness": []} for run in runs]
    assert "no counters.accepted was recorded" in judged("conserved-fig10", plain).verdict.reason
    assert derived.rounds_of_a_delay(made.run(FIG10, f"{SOLO} 400 ms", compute=0.3, delay=0.4)) == 3


def test_one_node_and_scores():
    assert judged("ucf101-one-node-16", made.scaling()).ours.point == pytest.approx(1.15 / 16 * 9537 * 50)
    assert judged("ucf101-solo-strong", made.scaling()).ours.point == pytest.approx(1.7 / 1.3)
    runs = [run | {"dataset": run["dataset"] | {"name": "ucf101", "standin": False}} for run in made.curves(3)]
    best = judged("ucf101-horovod-best-top1", runs)
    assert best.ours.point > judged("ucf101-horovod-top1", runs).ours.point
    without = [run | {"final": {k: v for k, v in run["final"].items() if k != "top5"}} for run in runs]
    assert "no final.top5 was recorded" in judged("ucf101-horovod-top5", without).verdict.reason


def test_probes_and_the_skew_alone():
    latency = {(r["collective"], r["bytes"]): r["latency_s"]["mean"] for r in made.partial()["result"]["rows"]}
    mean = pd.Series([latency["allreduce", size] / latency["majority", size] for _, size in latency]).mean()
    assert judged("majority-latency", made.probes()).ours.point == pytest.approx(mean)
    assert judged("majority-nap", made.probes()).ours.point == 16.5
    assert "no results for rows, solo, 32" in judged("solo-nap", [made.partial(ranks=8)]).verdict.reason
    assert judged("lstm-proportional", made.probes(), "measured").ours.point == pytest.approx(1)
    assert judged("length-median", [made.lengths(median=168)], "measured").verdict.answer == "refuted"
    assert "no results for ucf101" in judged("length-median", [made.lengths(standin=True)], "measured").verdict.reason
    P = 32
    waits = {"solo": 0.0, "allreduce": sum(P - 1 - i for i in range(P)) / P / (P - 1)}
    waits["majority"] = sum(max(0, d - i) for d in range(P) for i in range(P)) / P**2 / (P - 1)
    for name, of in contradictions.expected(P).items():
        assert of["wait"] == pytest.approx(waits[name])


def test_contradictions_are_arithmetic_on_the_paper_s_numbers():
    table = contradictions.checks(gathered([])).set_index("what")
    assert table.loc["Hyperplane: strong scaling with 400 ms", "follows from its other numbers"].startswith("2.56")
    assert table.loc["ResNet-50: weak scaling with 460 ms", "off"] == "agrees"
    implied = contradictions.implied(gathered([])).set_index(["figure", "injected"])["implied"]
    assert implied["Figure 10", "200 ms"] == pytest.approx(0.2 / 0.5)
    assert implied["Figure 11", "460 ms"] == pytest.approx(0.46 / 0.23)
