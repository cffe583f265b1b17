"""The eager-SGD page: built from the reference, its numbers computed again."""

from __future__ import annotations

import pandas as pd
import pytest

from repro.answers.claims.evaluate import judge
from repro.answers.claims.evidence import claims_of
from repro.answers.tables import loading
from repro.answers.tables.results import arranged
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.records.kinds import PADDED
from repro.reports.eagersgd import contradictions
from repro.reports.eagersgd.contradictions import HOROVOD, MAJORITY, SOLO, of_table1
from repro.reports.eagersgd.tables import DEEP500
from tests.reports.data.planned import NOWHERE, training
from tests.support.configs import own_variants

FILE = claims_of("eagersgd")
CLAIMS = {claim.id: claim for claim in FILE.claims}


@pytest.fixture
def page(reported):
    return reported("eagersgd").page


def drawn(page, name):
    return pd.read_csv(page.files.out / f"figures/eagersgd/{name}.csv")


# --- the page


def test_what_is_padded_says_so_and_is_no_headline(page):
    of = drawn(page, "fig10-speedups")
    padded = of[of["kind"] == PADDED]
    assert len(padded) and padded["source"].str.contains("padded").all()
    of = drawn(page, "fig10-losses")
    assert of.loc[of["kind"] == PADDED, "panel"].str.contains("padded").all()
    speaking = {one.claim.id for one in page.judged if one.kind == PADDED and one.ours}
    assert speaking and not any(CLAIMS[name].headline for name in speaking)


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


# --- which runs it shows


def own(experiment):
    return {variant.label for variant in own_variants(f"eagersgd/{experiment}")}


def test_claims_name_variants_and_experiments_that_there_are():
    variants = {experiment.name: set(experiment.variants) for experiment in training("eagersgd")}
    for claim in (claim for claim in FILE.claims if claim.value):
        value = claim.value
        named = [of.get("variant") for _, of in value.sides] + [value.arguments.get("variant")]
        for name in filter(None, named):
            assert name in (variants.get(claim.experiment) or own(claim.experiment)), claim.id


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


def test_lost_gradients_are_seen():
    """Every gradient was accepted or is pending: the published number is 1, and says nothing of one that is not."""
    claim = CLAIMS["conserved-fig10"]
    runs = [run | {"counters": run["counters"] | {"pending": 0.0}} if run.get("counters") else run
            for run in loading.read("eagersgd", reference_root())]  # fmt: skip
    court = arranged("eagersgd", runs, NOWHERE).court
    lost = judge(claim, "simulated", court.evidence(claim, "simulated"), FILE.effect(claim))
    assert lost.ours.point < 1 and lost.verdict.answer == "refuted"


def test_the_skew_alone():
    P = 32
    waits = {"solo": 0.0, "allreduce": sum(P - 1 - i for i in range(P)) / P / (P - 1)}
    waits["majority"] = sum(max(0, d - i) for d in range(P) for i in range(P)) / P**2 / (P - 1)
    for name, of in contradictions.expected(P).items():
        assert of["wait"] == pytest.approx(waits[name])


def test_contradictions_are_arithmetic_on_the_paper_s_numbers():
    table = contradictions.checks(arranged("eagersgd", [])).set_index("what")
    assert table.loc["Hyperplane: strong scaling with 400 ms", "follows from its other numbers"].startswith("2.56")
    assert table.loc["ResNet-50: weak scaling with 460 ms", "off"] == "agrees"
    implied = contradictions.implied(arranged("eagersgd", [])).set_index(["figure", "injected"])["implied"]
    assert implied["Figure 10", "200 ms"] == pytest.approx(0.2 / 0.5)
    assert implied["Figure 11", "460 ms"] == pytest.approx(0.46 / 0.23)
