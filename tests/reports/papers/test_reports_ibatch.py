"""The iBatch page from the reference: its figures against the runs, its arithmetic, and changed runs."""

from __future__ import annotations

from statistics import fmean

import pytest

from repro.answers.figures.specification import rows
from repro.answers.pages.reference import quoted
from repro.answers.tables.runs import Runs
from repro.core.errors import InputError
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.reports.ibatch import derived, tables
from repro.reports.ibatch.derived import MODES
from repro.reports.ibatch.tables import LAYERWISE, NETWORKS, SINGLE

VGG = NETWORKS["vgg19-22k"]


@pytest.fixture
def page(reported):
    return reported("ibatch").page


@pytest.fixture(scope="module")
def reference():
    """Every training run of the reference by figure and network, testbed and variant."""
    networks = {"googlenet": "googlenet", "inception_v3": "inception", "vgg16": "vgg", "vgg19": "vgg19"}
    runs = {}
    for run in catalogue.runs("ibatch", reference_root()):
        if run.identity.trains:
            ending = networks.get(run.model_name, "") + ("-22k" if "22k" in run.dataset.name else "")
            runs[f"{run.identity.experiment}-{ending}", run.identity.testbed.name, run.label] = run.training
    return runs


def shown(page, name):
    """The rows behind a figure."""
    figure = page.specs.shown.figures[name]
    return rows(figure, page.specs.rows(figure))


def test_a_place_that_the_paper_s_table_lacks_is_named():
    with pytest.raises(InputError, match=r"reference/ibatch\.csv: no row of Section Scalability, none, all, x"):
        quoted("ibatch").value(tables.SCALING, "none", "all", "x")


# --- its figures


def test_speed_ups_are_nodes_times_the_seconds_of_one_over_those_of_all(page, reference):
    table = shown(page, "headline").set_index(["mode", "source"])
    bars = table["speedup"]

    def expected(figure, testbed, mode, nodes):
        alone, every = (reference[figure, testbed, name].step.mean_s for name in (SINGLE, f"{mode} {nodes}"))
        return pytest.approx(nodes * alone / every)

    for mode in MODES:
        for testbed, source in (("paper/ibatch", tables.ESTIMATED), ("paper/ibatch-implied", tables.OF_26)):
            place = tables.CALLED[mode], f"simulated, {source}"
            assert bars[place] == expected("fig5-vgg19-22k", testbed, mode, 72)
        assert tables.speedup(VGG, mode, 72) in set(bars[tables.CALLED[mode], "paper"])
    line = shown(page, "fig6").query("nodes == 48 and mode == 'iBatch' and network == 'VGG19'").set_index("testbed")
    assert 48 * line.loc[tables.ESTIMATED, "of_linear"] == expected("fig6-vgg19", "paper/ibatch", "ibatch", 48)


def test_the_parts_of_figure_7_are_means_over_the_workers(page, reference):
    ranks, base = (reference["fig5-inception", "paper/ibatch", f"{mode} 72"].per_rank
                   for mode in (LAYERWISE, "default"))  # fmt: skip
    overlap = fmean(rank["overlap_s"] for rank in ranks)
    whole = fmean(rank["pull_s"] + rank["forward_s"] - rank["overlap_s"] for rank in base)
    parts = shown(page, "fig7").query("mode == 'layer by layer'").set_index(["network", "testbed", "part"])["share"]
    assert parts["Inception-V3", tables.ESTIMATED, "overlapping"] == pytest.approx(overlap / whole)


def test_what_an_overlap_can_save_follows_from_the_paper_s_numbers(page):
    saved = shown(page, "saved").set_index(["what", "quantity"])
    printed = saved.loc[(f"{VGG}, 72 nodes", "saved, as printed")]
    most = saved.xs("the most that overlap saves", level="quantity")
    assert printed["iterations"] == pytest.approx(72 / 26 - 72 / 45)
    assert printed["low"] == pytest.approx(72 / 26.5 - 72 / 44.5) and printed["low"] > 1
    assert most.loc[f"{VGG}, 72 nodes", "high"] == pytest.approx(1 / 3)  # of an iteration: the forward pass
    assert most.loc["GoogLeNet, 30 nodes", "low"] == pytest.approx((30 / 26.5 - 1) / 2)
    sums = tables.sums(page.results).set_index("what")["off"]
    assert list(sums[sums == "agrees"].index) == [what for what in sums.index if "improvement" in what]


# --- its functions on changed runs


def test_weights_are_equal_where_all_three_modes_end_alike(page):
    runs = [*page.results.find("measured-vgg", "measured").records.values()]
    assert {*derived.equal_weights(Runs.of(runs)).values.values()} == {1.0}
    differ = [
        run.changed(run.training.model_copy(update={"weights_sha256": str(number)})) for number, run in enumerate(runs)
    ]
    assert {*derived.equal_weights(Runs.of(differ)).values.values()} == {0.0}
    alone = Runs.of([run for run in runs if run.label.startswith(LAYERWISE)])
    assert "all three modes" in derived.equal_weights(alone).reason
