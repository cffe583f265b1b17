"""Entries of experiments' files besides their runs: sources of hyper-parameters; `jobs`, the runs of `repro run PAPER`
at a scale."""

from __future__ import annotations

import functools

import pytest

from repro.core.errors import InputError
from repro.core.paths import CONFIGS
from repro.data import augmentation
from repro.experiment import config, quoted
from repro.experiment.expand import expand_runs
from repro.experiment.files import own_file
from repro.experiment.quoted import Parameter, read_hyperparameters
from repro.experiment.requested import select_job
from repro.experiment.schema import RunConfig
from tests.support.configs import own_variants

WITH_SOURCES = [name for name in config.experiment_names() if own_file(name).get("hyperparameters")]
# the paper counts from 1, until the fifth epoch; ours are the epochs before it
COUNTED_OTHERWISE = {"warmup_epochs": 1}


def test_every_workload_that_a_paper_names_is_trained_by_an_experiment_with_sources():
    models = {at_scale_paper(name)["model"]["name"] for name in WITH_SOURCES}
    named = {"mnist_mlp", "alexnet", "vgg16_imagenet", "resnet50", "lstm_ucf101", "resnet20", "resnet32", "vgg16"}
    assert models >= named | {"lstm_ptb"}
    assert {f"dataset.{option}" for option in augmentation.ALL} <= set(quoted.WHERE_SET)


@functools.cache
def at_scale_paper(name: str) -> dict:
    return config.compose(name, [], "paper")


@pytest.mark.parametrize("name", WITH_SOURCES)
def test_at_scale_paper_each_is_the_papers_or_assumed(name):
    every = read_hyperparameters(name, at_scale_paper(name))
    assert {"batch", "epochs", "optimizer.lr"} <= {one.name for one in every}
    for one in every:
        assert one.ours is not None, f"{one.name} is no entry of the configuration"
        if one.paper is None:
            assert one.source.startswith(("assumed: ", "chosen here", "published: ")), one
        else:
            assert one.paper == pytest.approx(one.ours + COUNTED_OTHERWISE.get(one.name, 0)), one


def test_each_is_a_line_with_the_overridden_value():
    name = "gtopk/fig5-resnet20"
    resolved = at_scale_paper(name)
    changed = resolved | {"optimizer": resolved["optimizer"] | {"lr": 0.2}}
    lines = [one.line for one in read_hyperparameters(name, changed)]
    assert "optimizer.lr = 0.2; the paper: 0.1 (Table V)" in lines
    assert "batch = 512; the paper: 512 (Table V; 128 for each of workers)" in lines
    assert "optimizer.weight_decay = 0.0001; assumed: the released code" in lines


def test_an_entry_that_is_set_is_listed_also_if_its_value_equals_1(monkeypatch):
    """True == 1 and 1.0 == 1, but neither is the default."""
    resolved = config.compose("gtopk/fig8", [], "quick")
    changed = {
        "optimizer": resolved["optimizer"] | {"clip_norm": 1.0, "schedule": "step", "milestones": [3], "decay": 0.5},
        "dataset": resolved["dataset"] | {"flip": True},
    }
    monkeypatch.setattr(quoted, "own_file", lambda _: {"hyperparameters": {"epochs": "chosen here"}})
    added = {
        name: {one.name for one in read_hyperparameters("gtopk/fig8", resolved | values)}
        for name, values in {"before": {}, "after": changed}.items()
    }
    assert added["after"] - added["before"] >= {
        *("optimizer.clip_norm", "optimizer.milestones", "optimizer.decay", "dataset.flip")
    }
    assert not {"optimizer.power", "optimizer.alpha", "accumulate"} & added["after"]


def test_a_parameter_without_a_source_is_listed_and_experiments_may_have_none(monkeypatch):
    resolved = config.compose("gtopk/fig8", [], "quick")
    assert read_hyperparameters("gtopk/fig8", resolved) == []
    monkeypatch.setattr(quoted, "own_file", lambda _: {"hyperparameters": {"epochs": "chosen here"}})
    assert Parameter("batch", resolved["batch"], None, "no source") in read_hyperparameters("gtopk/fig8", resolved)
    assert "hyperparameters" not in RunConfig.model_fields, "it is no part of a run's configuration, or its key"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"place": "Table V", "row": "ResNet-20", "quantity": "epoch"}, "gtopk.csv has nothing of all in Table V"),
        ({"place": "Table V", "row": "ResNet-20"}, "quantity: is missing"),
        (140, "must be"),
    ],
)
def test_an_entry_that_cannot_be_is_one_line_that_names_it(given, says, monkeypatch):
    monkeypatch.setattr(quoted, "own_file", lambda _: {"hyperparameters": {"epochs": given}})
    with pytest.raises(InputError) as caught:
        read_hyperparameters("gtopk/fig5-resnet20", at_scale_paper("gtopk/fig5-resnet20"))
    line = str(caught.value)
    assert says in line and "fig5.yaml: gtopk/fig5-resnet20: hyperparameters.epochs: " in line and "\n" not in line


@pytest.mark.parametrize("name", ["eagersgd/fig11", "eagersgd/fig12", "eagersgd/fig13"])
def test_simulated_experiments_have_real_ranks_at_scale_paper(name):
    """`repro submit` takes the runs of testbed here to the cluster."""
    testbeds = {scale: config.read_axes(config.compose(name, [], scale), [])[1] for scale in ("quick", "full", "paper")}
    assert list(testbeds["quick"]) == list(testbeds["full"]) == [one for one in testbeds["paper"] if one != "here"]
    assert "here" in testbeds["paper"] and not any("timed_images" in one for one in testbeds["paper"]["here"])


@pytest.mark.parametrize("paper", sorted(path.stem for path in (CONFIGS / "papers").glob("*.yaml")))
def test_a_paper_at_scale_quick_is_a_part_of_it(paper):
    quick, every = config.experiment_names(paper, "quick"), config.experiment_names(paper)
    assert quick and [name for name in every if name in quick] == quick
    assert config.experiment_names(paper, "full") == every
    left_out = next(name for name in every if name not in quick)
    assert config.experiment_names(left_out, "quick") == [left_out]  # by its name it is run at any scale


@pytest.mark.parametrize("name", config.experiment_names())
def test_each_has_three_scales_and_jobs_choose_runs_that_there_are(name):
    own = config.own_file(name)
    jobs = own.get("jobs") or own["scales"]
    assert list(own["scales"]) == ["quick", "full", "paper"] and set(jobs) <= set(own["scales"])
    for chosen in filter(None, (config.find_job(name, scale) for scale in jobs)):
        factors = [variant.factors for variant in own_variants(name)]
        there = {factor: {of[factor] for of in factors if factor in of} for of in factors for factor in of}
        there["testbed"] = set(own["testbeds"])
        assert all(set(values) <= there[factor] for each in chosen for factor, values in each.items())


def test_a_job_selects_runs_by_their_factors():
    chosen = [{"workers": [6, 72], "testbed": ["paper/a"]}, {"testbed": ["emulated/a"], "method": ["x"]}]
    assert config.is_in_job(chosen, {"workers": 72, "method": "x"}, "paper/a")
    assert not config.is_in_job(chosen, {"workers": 12}, "paper/a") and not config.is_in_job(chosen, {}, "paper/b")
    assert config.is_in_job(chosen, {"method": "single"}, "paper/a") and config.is_in_job([{}], {}, "here")
    assert config.is_in_job(chosen, {"workers": 12, "method": "x"}, "emulated/a")
    assert not config.is_in_job(chosen, {"workers": 6, "method": "y"}, "emulated/a")


def test_a_run_that_is_the_same_at_full_is_called_so():
    runs = expand_runs("pipesgd/fig4-alexnet", ["device=cpu"], "quick")
    assert {(run.config.testbed.kind, run.config.scale) for run in runs} == {
        ("simulated", "full"), ("emulated", "full"), ("measured", "quick"),
    }  # fmt: skip
    assert {run.config.scale for run in expand_runs("gtopk/fig10-vgg16", [], "quick")} == {"full"}
    assert {run.config.scale for run in expand_runs("pipesgd/fig1", ["device=cpu"])} == {"custom"}


def test_overrides_count_more_than_the_job():
    runs = expand_runs("pipesgd/fig4-resnet18", ["device=cpu", "strategy=dsync"], "quick")
    assert {run.testbed for run in select_job(runs, "quick", [])} == {"paper/pipesgd-resnet18"}
    assert select_job(runs, "full", []) == runs
    here = [run for run in runs if run.testbed == "here"]
    assert here and select_job(here, "quick", ["device=cpu", "testbed=here"]) == here
