"""The iBatch page: built from the reference, its figures' numbers, its verdicts, and its functions on made-up runs."""

from __future__ import annotations

from statistics import fmean

import pytest

from repro.answers.claims.evidence import claims_of, outcome_of
from repro.answers.claims.verdict import BY_CONSTRUCTION, CONFIRMED, IN_DIRECTION
from repro.answers.figures.specification import rows
from repro.answers.pages.reference import quoted
from repro.answers.tables.runs import Runs
from repro.core.errors import InputError
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.reports.ibatch import derived, tables
from repro.reports.ibatch.derived import MODES
from repro.reports.ibatch.tables import DEFAULT, IBATCH, LAYERWISE, NETWORKS, SINGLE
from tests.reports.data.planned import planned

VGG = NETWORKS["vgg19-22k"]


@pytest.fixture
def page(reported):
    return reported("ibatch").page


@pytest.fixture(scope="module")
def reference():
    """Every run of the reference as it was written, by figure and network, whole testbed and variant."""
    networks = {"googlenet": "googlenet", "inception_v3": "inception", "vgg16": "vgg", "vgg19": "vgg19"}
    found = {}
    for run in (found.summary for found in catalogue.runs("ibatch", reference_root())):
        if run["program"] != "train":
            continue
        ending = networks.get(run["model"]["name"], "") + ("-22k" if "22k" in run["dataset"]["name"] else "")
        found[f"{run['experiment']}-{ending}", run["testbed"], run["variant"]] = run
    return found


def shown(page, name):
    """The rows behind a figure."""
    figure = page.specs.shown.figures[name]
    return rows(figure, page.specs.rows(figure))


# --- the page


def test_nothing_holds_on_an_input_that_fixes_or_implies_it(page):
    for one in page.judged:
        if one.claim.experiment.endswith("-implied") and one.claim.about == "time":
            assert one.verdict.answer not in (CONFIRMED, IN_DIRECTION), one.claim.id
    assert page.one("case-startup", "simulated").verdict.answer != BY_CONSTRUCTION  # drawn, from a source
    assert page.one("case-batches-implied", "simulated").verdict.answer == BY_CONSTRUCTION


def test_no_win_over_pulls_layer_by_layer_is_seen(page):
    share = page.one("improvement-over-layerwise", "simulated").verdict.share
    assert share.hits / share.of < 0.5


def test_claims_have_the_numbers_that_the_reference_table_prints():
    found = {claim.id: claim for claim in claims_of("ibatch").claims}
    paper = quoted("ibatch")
    for ending, name in NETWORKS.items():
        for mode in MODES:
            assert found[f"{ending}-30-{mode}"].paper.low == tables.speedup(name, mode, 30)
        assert found[f"parameters-{ending}"].paper.low == paper.value("Table 1", name, "all", "parameters")
    for mode in MODES:
        assert found[f"vgg19-22k-72-{mode}"].paper.low == tables.speedup(VGG, mode, 72)
    assert found["case-batches"].paper.low == paper.value("Case study", "GoogLeNet", "ibatch", "number of batches")
    with pytest.raises(InputError, match=r"reference/ibatch\.csv: no row of Section Scalability, none, all, x"):
        paper.value(tables.SCALING, "none", "all", "x")


# --- its figures


def test_speed_ups_are_nodes_times_the_seconds_of_one_over_those_of_all(page, reference):
    bars = shown(page, "headline").set_index(["mode", "source"])["speedup"]
    for mode in MODES:
        for testbed, source in (("paper/ibatch", tables.ESTIMATED), ("paper/ibatch-implied", tables.OF_26)):
            one, some = (
                reference["fig5-vgg19-22k", testbed, name]["step"]["mean_s"] for name in (SINGLE, f"{mode} 72")
            )
            assert bars[tables.CALLED[mode], f"simulated, {source}"] == pytest.approx(72 * one / some)
        assert tables.speedup(VGG, mode, 72) in set(bars[tables.CALLED[mode], "paper"])
    line = shown(page, "fig6").query("nodes == 48 and mode == 'iBatch' and network == 'VGG19'").set_index("testbed")
    one, some = (reference["fig6-vgg19", "paper/ibatch", name]["step"]["mean_s"] for name in (SINGLE, "ibatch 48"))
    assert line.loc[tables.ESTIMATED, "speedup"] == pytest.approx(48 * one / some)


def test_the_parts_of_figure_7_are_means_over_the_workers(page, reference):
    workers = [rank for rank in reference["fig5-inception", "paper/ibatch", "layerwise 72"]["per_rank"]]
    base = [rank for rank in reference["fig5-inception", "paper/ibatch", "default 72"]["per_rank"]]
    overlap = fmean(rank["overlap_s"] for rank in workers)
    whole = fmean(rank["pull_s"] + rank["forward_s"] - rank["overlap_s"] for rank in base)
    parts = shown(page, "fig7").query("mode == 'layer by layer'").set_index(["network", "testbed", "part"])["share"]
    assert parts["Inception-V3", tables.ESTIMATED, "overlapping"] == pytest.approx(overlap / whole)


def test_what_an_overlap_can_save_follows_from_the_paper_s_numbers(page):
    saved = shown(page, "saved").set_index(["what", "quantity"])
    printed = saved.loc[(f"{VGG}, 72 nodes", "saved, as printed")]
    most = saved.xs("the most that overlap saves", level="quantity")
    assert printed["iterations"] == pytest.approx(72 / 26 - 72 / 45)
    assert printed["low"] == pytest.approx(72 / 26.5 - 72 / 44.5) and printed["low"] > 1
    assert most.loc[f"{VGG}, 72 nodes", "high"] == tables.FORWARD
    assert most.loc["GoogLeNet, 30 nodes", "low"] == pytest.approx((30 / 26.5 - 1) / 2)
    sums = tables.sums(page.found).set_index("what")["off"]
    assert list(sums[sums == "agrees"].index) == [what for what in sums.index if "improvement" in what]


# --- its functions, on made-up runs


def run(variant, seconds=1.0, experiment="fig5-vgg19", took=None, seed=0, **more):
    """What the functions read of a run; took: (end of the forward pass, pulls, forward, overlap) of its workers."""
    of = planned("ibatch", experiment).factors.get(variant, {})
    names = ("forward_end_s", "pull_s", "forward_s", "overlap_s")
    rank = dict(zip(names, took or ())) | {"role": "worker", "steps": 2}
    return {"experiment": experiment, "run": f"{variant}-{seed}", "variant": variant, "factors": of,
            "seed": seed, "breakdown": False, "program": "train",
            "kind": "simulated", "workers": of.get("workers", 1), "testbed": "paper/ibatch",
            "batch": 4 * of.get("workers", 1),
            "model": {"name": "vgg19", "parameters": 1_500_000}, "step": {"mean_s": seconds},
            "per_rank": [rank, rank] if took else [], "pipeline": {}} | more  # fmt: skip


def cluster(name, of_30, of_72):
    """Runs of a network, seconds of each mode."""
    experiment = f"fig5-{name}"
    one = [run(SINGLE, experiment=experiment)]
    return one + [run(f"{mode} {nodes}", seconds, experiment) for nodes, each in ((30, of_30), (72, of_72))
                  for mode, seconds in zip(MODES, each)]  # fmt: skip


def group(*runs):
    return Runs.of(runs)


def value(outcome):
    assert not outcome.reason, outcome.reason
    return outcome.values[0]


def judged(claim, *runs):
    """The outcome for a claim whose experiment has these runs."""
    file = claims_of("ibatch")
    (one,) = [known for known in file.claims if known.id == claim]
    return outcome_of(one, group(*runs))


def test_shares_and_orders_of_networks():
    runs = [*cluster("vgg19", (2, 2, 1.5), (3, 2.2, 2)), *cluster("googlenet", (1.2, 1, 1.01), (1.5, 1, 1.1))]
    runs += [*cluster("inception", (1.2, 1, 1.01), (1.5, 1, 1.1)), *cluster("vgg19-22k", (2, 2, 1.5), (3, 2.2, 2))]
    assert value(judged("best-of-three-30", *runs)) == 0.5
    assert value(judged("gain-grows", *runs)) == 1
    heavy, light = 3 / 2, 1.5 / 1.1
    assert value(judged("largest-improvement", *runs)) == pytest.approx(heavy - max(heavy, light))
    assert value(judged("vgg-scales-worse", *runs)) == pytest.approx(30 / 1.2 - 30 / 2)
    assert judged("best-of-three-30", *runs[:-7]).reason == "no results for fig5-vgg19-22k"


def test_parts_of_an_iteration_are_compared_variant_by_variant():
    some = run("layerwise 72", took=(5, 3, 4, 2)), run("ibatch 72", took=(4, 2, 4, 1.5)), run("default 72")
    exposed = "per_rank.pull_s - per_rank.overlap_s"
    rests = lambda of, over, column: derived.ratio_of_rests(group(*some), "fig5-vgg19", of, over, column)  # noqa: E731
    assert value(rests("ibatch 72", "layerwise 72", "per_rank.overlap_s")) == 0.75
    assert value(rests("layerwise 72", "ibatch 72", exposed)) == 2
    assert rests("layerwise 48", "ibatch 72", exposed).reason == "no pulls recorded by layerwise 48 of fig5-vgg19"
    assert rests("ibatch 72", "default 72", exposed).reason == "no pulls recorded by default 72 of fig5-vgg19"
    assert value(judged("overlap-longer-vgg19", *some)) == 0.75
    bases = run("default 72", took=(7, 2.5, 4, 0))
    assert value(judged("startup-vgg19", *some[:2], bases)) == pytest.approx(3 / 2.5)
    assert value(judged("overlap-default-vgg19", bases)) == 0
    silent = [run(f"{mode} 72") for mode in MODES]
    assert judged("startup-vgg19", *silent).reason == "no per_rank.pull_s was recorded"


def test_servers_of_their_own_take_times_from_the_first_step():
    """Later pulls wait there for other workers' gradients."""
    names = ("forward_end_s", "pull_s", "forward_s", "overlap_s")
    late = [run(mode, experiment="fig3", took=(9, 9, 9, 9)) for mode in (DEFAULT, IBATCH)]
    for one, first in zip(late, ((6.0, 0.5, 0.75, 0.25), (3.0, 0.5, 0.75, 0.25)), strict=True):
        one["per_rank"] = [rank | {"first_step": dict(zip(names, first))} for rank in one["per_rank"]]
    assert value(judged("case-over-default", *late)) == 2


def test_layers_batches_and_gaps_come_from_the_profile():
    profile = {"layers": ["conv1", "conv2", "fc"], "startup_s": 1.0, "transfer_s": [1, 1, 5], "forward_s": [2, 4, 2]}
    decided = {"profile": profile, "batches": [[1, 1], [2, 3]], "executed_s": 10.0, "exact_s": 8.0}
    runs = [run(mode, experiment="fig3", pipeline=decided, strategy=mode) for mode in (IBATCH, DEFAULT)]
    assert value(judged("case-fully-connected", *runs)) == 3 and value(judged("case-convolutional", *runs)) == 2
    assert value(judged("case-batches", *runs)) == 2
    assert judged("case-batches", runs[1]).reason == "no batches of ibatch"
    assert judged("case-fully-connected", runs[0]).reason == "no profile of default with a layer fc"
    assert value(judged("greedy-near-exact", *runs)) == 0.25


def test_shares_of_random_profiles_are_of_all_of_them():
    rows = [{"family": family, "modes": {"greedy": {"optimal": of}}} for family, of in (("uniform", 1.0), (None, 0.25))]
    probe = run("random-profiles", paper="ibatch", program="batching", result={"rows": rows}, run="all")
    assert value(judged("random-optimal", probe)) == 0.25


def test_weights_are_equal_where_all_three_modes_end_alike():
    ends = {mode: run(f"{mode} 4", experiment="measured-vgg", weights_sha256="a") for mode in MODES}
    assert value(derived.equal_weights(group(*ends.values()))) == 1
    other = [*list(ends.values())[:2], ends[IBATCH] | {"weights_sha256": "b"}]
    assert value(derived.equal_weights(group(*other))) == 0
    assert value(derived.equal_weights(group(*(run(f"{mode} 4", experiment="measured-vgg") for mode in MODES)))) == 0
    assert "all three modes" in derived.equal_weights(group(ends[LAYERWISE])).reason
