"""The eager-SGD page from the reference: its numbers against the runs, and its arithmetic."""

from __future__ import annotations

import pandas as pd
import pytest

from repro.answers.claims.evaluate import judge_claim
from repro.answers.claims.evidence import claims_of
from repro.answers.claims.stats import DASH
from repro.answers.tables.results import arrange
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.records.kinds import PADDED
from repro.reports.eagersgd import contradictions, tables
from repro.reports.eagersgd.contradictions import HOROVOD, MAJORITY, SOLO
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
    for name, column in (("fig10-speedups", "source"), ("fig10-losses", "panel")):
        padded = drawn(page, name).query("kind == @PADDED")[column]
        assert len(padded) and padded.str.contains("padded").all()
    speaking = {one.claim.id for one in page.judged if one.kind == PADDED and one.estimate}
    assert speaking and not any(CLAIMS[name].headline for name in speaking)


def test_figures_hold_what_the_runs_and_the_paper_say(page):
    found = catalogue.runs("eagersgd", reference_root())
    runs = {(run.identity.experiment, run.kind, run.label): run for run in found}

    def step(*key):
        return runs[key].training.final["train_s"] / runs[key].training.iterations

    of = drawn(page, "speedups").set_index(["case", "source"])["speedup"]
    ours = step("fig13", "simulated", HOROVOD) / step("fig13", "simulated", MAJORITY)
    assert of[f"Figure 13: {MAJORITY} over Horovod", "simulated"] == pytest.approx(ours)
    assert of[f"Figure 13: {MAJORITY} over Horovod", "paper"] == 1.27
    of = drawn(page, "fig10-speedups").set_index(["delay", "source"])["speedup"]
    ours = step("fig10-padded", PADDED, f"{DEEP500} 400 ms") / step("fig10-padded", PADDED, f"{SOLO} 400 ms")
    assert of["400 ms", "measured, padded, step of 0.61 s"] == pytest.approx(ours)
    latency = drawn(page, "fig9").query("measure == 'latency'").set_index(["kind", "collective", "bytes"])["value"]
    probes = [run for run in found if run.identity.experiment == "fig9"]
    assert {probe.kind for probe in probes} == {"simulated", "emulated"}
    for probe in probes:
        for row in probe.probe.found["rows"]:
            if row["ranks"] == 32 and row["collective"] in ("allreduce", "solo", "majority"):
                ours = latency[probe.kind, row["collective"], row["bytes"]]
                assert ours == pytest.approx(1e3 * row["latency_s"]["mean"])
    last = drawn(page, "fig12").groupby("variant")["top1"].last()
    for variant in last.index:
        assert last[variant] == pytest.approx(runs["fig12", "simulated", variant].training.final["top1"])


# --- which runs it shows


def test_claims_name_variants_and_experiments_that_there_are():
    variants = {experiment.name: set(experiment.variants) for experiment in training("eagersgd")}
    for claim in (claim for claim in FILE.claims if claim.value):
        named = [of.get("variant") for _, of in claim.value.sides] + [claim.value.arguments.get("variant")]
        there = variants.get(claim.experiment)
        there = there or {variant.label for variant in own_variants(f"eagersgd/{claim.experiment}")}
        assert {*filter(None, named)} <= there, claim.id


def test_models_that_ran_at_full_size_have_the_paper_s_number_of_parameters(page):
    table = tables.table1(page.results).set_index("task")
    ran = table[table["ours"] != DASH]
    assert len(ran) >= 2 and (ran["ours"] == ran["parameters"]).all()


# --- its own arithmetic


def test_lost_gradients_are_seen():
    """Every gradient was accepted or is pending: without the pending ones the claim must not be reproduced."""
    claim = CLAIMS["conserved-fig10"]
    runs = []
    for run in catalogue.runs("eagersgd", reference_root()):
        if run.identity.trains and (counters := run.training.counters):
            run = run.changed(run.training.model_copy(update={"counters": counters | {"pending": 0.0}}))
        runs.append(run)
    evidence = arrange("eagersgd", runs, NOWHERE).evaluator.evidence(claim, "simulated")
    lost = judge_claim(claim, "simulated", evidence, FILE.effect(claim))
    assert lost.estimate.point < 1 and lost.verdict.answer == "not reproduced"


def test_the_skew_alone():
    P = 32
    waits = {"solo": 0.0, "allreduce": sum(P - 1 - i for i in range(P)) / P / (P - 1)}
    waits["majority"] = sum(max(0, d - i) for d in range(P) for i in range(P)) / P**2 / (P - 1)
    for name, of in contradictions.expected(P).items():
        assert of["wait"] == pytest.approx(waits[name])


def test_contradictions_are_arithmetic_on_the_paper_s_numbers():
    table = contradictions.checks(arrange("eagersgd", [])).set_index("what")
    assert table.loc["Hyperplane: strong scaling with 400 ms", "follows from its other numbers"].startswith("2.56")
    assert table.loc["ResNet-50: weak scaling with 460 ms", "off"] == "agrees"
    implied = contradictions.implied(arrange("eagersgd", [])).set_index(["figure", "injected"])["implied"]
    assert implied["Figure 10", "200 ms"] == pytest.approx(0.2 / 0.5)
    assert implied["Figure 11", "460 ms"] == pytest.approx(0.46 / 0.23)
