"""What `repro run PAPER` consists of at a scale, and what the size of a run is called."""

import pytest

from repro.common.paths import CONFIGS
from repro.experiment import config
from repro.launch import runs as expansion
from repro.launch.planning import part


@pytest.mark.parametrize("paper", sorted(path.stem for path in (CONFIGS / "papers").glob("*.yaml")))
def test_a_paper_at_scale_quick_is_a_part_of_it(paper):
    quick, every = config.experiment_names(paper, "quick"), config.experiment_names(paper)
    assert quick and [name for name in every if name in quick] == quick
    assert config.experiment_names(paper, "full") == every
    left_out = next(name for name in every if name not in quick)
    assert config.experiment_names(left_out, "quick") == [left_out]  # by its name it is run at any scale


@pytest.mark.parametrize("name", config.experiment_names())
def test_jobs_are_scales_and_choose_runs_that_there_are(name):
    own = config.own_file(name)
    jobs = own.get("jobs") or own["scales"]
    assert set(jobs) <= set(own["scales"])
    for chosen in filter(None, (config.job(name, scale) for scale in jobs)):
        factors = [variant.factors for variant in config.own_variants(name)]
        there = {factor: {of[factor] for of in factors if factor in of} for of in factors for factor in of}
        there["testbed"] = set(own["testbeds"])
        assert all(set(values) <= there[factor] for factor, values in chosen.items())


def test_of_a_paper_the_chosen_runs_of_an_experiment_are_taken():
    chosen = {"workers": [6, 72], "testbed": ["paper/a"]}
    assert config.belongs(chosen, {"workers": 72, "method": "x"}, "paper/a")
    assert not config.belongs(chosen, {"workers": 12}, "paper/a") and not config.belongs(chosen, {}, "paper/b")
    assert config.belongs(chosen, {"method": "single"}, "paper/a") and config.belongs({}, {}, "here")


def test_a_run_that_is_the_same_at_full_is_called_so():
    found = expansion.expand("pipesgd/fig4-alexnet", ["device=cpu"], "quick")
    assert {(run.config.testbed.kind, run.config.scale) for run in found} == {
        ("simulated", "full"), ("emulated", "full"), ("measured", "quick"),
    }  # fmt: skip
    assert {run.config.scale for run in expansion.expand("gtopk/fig10-vgg16", [], "quick")} == {"full"}
    assert {run.config.scale for run in expansion.expand("pipesgd/fig1", ["device=cpu"])} == {"custom"}


def test_what_the_user_says_counts_more_than_the_job():
    found = expansion.expand("pipesgd/fig4-resnet18", ["device=cpu"], "quick")
    assert {run.testbed for run in part(found, "quick", [])} == {"paper/pipesgd-resnet18"}
    assert part(found, "full", []) == found
    here = expansion.expand("pipesgd/fig4-resnet18", ["device=cpu", "testbed=here"], "quick")
    assert part(here, "quick", ["device=cpu", "testbed=here"]) == here
