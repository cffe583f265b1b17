"""Every experiment composes at every scale, and so does every configuration of a group; a composer makes what Hydra
alone makes."""

from __future__ import annotations

import itertools

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from repro.core.errors import InputError, NotHere
from repro.core.paths import CONFIGS
from repro.experiment import config, files, grid
from repro.experiment.compose import Composer
from repro.experiment.expand import expand_runs
from repro.experiment.needs import uses_gpu
from repro.training.stops import TrainingPlan
from tests.support.configs import first_variant_alone

FIG4 = "pipesgd/fig4-mnist"


@pytest.mark.parametrize("name", config.experiment_names())
def test_every_experiment_composes_at_every_scale(name, monkeypatch):
    resolved = config.compose(name)
    lacking = []  # Horovod, or network namespaces, which not every machine has
    runs = expand_runs(name, lacking=lacking)
    if lacking and not runs:
        pytest.skip(str(lacking[0]))
    assert len(runs) == (points(resolved) - len(lacking)) * resolved["seeds"]
    assert len({run.label for run in runs}) == len(runs)
    first_variant_alone(monkeypatch)  # a scale changes the same entries of all variants
    for scale in {tuple(changes): scale for scale, changes in resolved["scales"].items()}.values():
        lacking = []
        runs = expand_runs(name, scale=scale, lacking=lacking)
        sized = config.compose(name, (), scale)
        assert len(runs) == (points(sized) - len(lacking)) * sized["seeds"]


def points(resolved):
    """The number of variants on all testbeds, some of which select among the variants."""
    variants, testbeds = config.read_axes(resolved, [])
    return sum(
        len(grid.select_variants(variants, grid.split_overrides(overrides)[1])) for overrides in testbeds.values()
    )


@pytest.mark.parametrize("overrides", [
    ["strategy=pipe_sgd", "strategy.K=3", "optimizer.lr=0.2", "strategy.codec=quantize8"],
    ["testbed=virtual", "testbed.arithmetic=none", "epochs=0.5", "targets=[0.5,0.6]"],
    ["++optimizer.lr=0.3", "optimizer.lr=0.2", "testbed=virtual", "+testbed.device.iteration_s=0.5"],
    ["+targets=[0.5]", "+probe.new={a: 1}", "+probe.new.b=2"],
    ["epochs=1", "epochs=2", "grid=null"],
    ["testbed=paper/gtopk-alexnet", "model=vgg16", "testbed=paper/pipesgd-1g", "dataset=imagenet", "imbalance=cloud"],
])  # fmt: skip
@pytest.mark.parametrize("name", [FIG4, "ibatch/beyond"])  # the latter has entries of its own for its data set
@pytest.mark.parametrize("scale", [None, "quick"])
def test_a_composer_has_what_hydra_alone_composes(name, overrides, scale):
    composer = Composer(name, scale)
    composer.compose(["seeds=7"])  # leaves no trace in what comes after
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        hydra = OmegaConf.to_container(compose("config", [*composer.first, *overrides]), resolve=True)
    assert composer.compose(overrides) == composer.compose(overrides) == hydra


def test_a_chosen_testbed_is_merged_with_the_one_in_an_experiments_defaults(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(
        "defaults: [/testbed/paper/pipesgd@testbed]\npaper: mine\nexperiment: placed\nscales: {quick: []}\n"
    )
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "mine.yaml"))
    testbed = Composer("mine/placed").compose(["testbed=virtual"])["testbed"]
    assert testbed["name"] == "paper/pipesgd"  # Hydra merges an experiment over what is chosen


CHAIN = {f"v{level}": 2 * f"${{v{level + 1}}}" for level in range(60)} | {"v60": "x", "title": "${v0}"}
NESTED = {"a": "${x.${n}}", "n": "b", "x": {"b": 1}, "title": "${a}"}


@pytest.mark.parametrize(
    ("entries", "words"),
    [(CHAIN, "is too large"), ({"a": "${b}", "b": ["${a}"]}, "leads back to itself"), (NESTED, "inside of another")],
)
def test_interpolations_that_grow_without_end_are_one_line(tmp_path, monkeypatch, entries, words):
    start = {"paper": "mine", "experiment": "chain", "title": "a chain", "scales": {"quick": []}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(start | entries))
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "mine.yaml"))
    with pytest.raises(InputError, match=words) as error:
        config.compose("mine/chain")
    assert "\n" not in str(error.value)


def test_interpolations_name_values_beside_and_above(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(
        "paper: mine\nexperiment: chain\nscales: {quick: []}\na: {b: '${.c}', c: '${d[1].e}', f: '${a.g}', g: 5}\n"
        "d: [0, {e: '${batch}'}]\nh: '${a.b}-${d[1].e}'\ntitle: '${h}'\n"
    )
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "mine.yaml"))
    composed = config.compose("mine/chain", ["batch=64"])
    assert composed["a"] == {"b": 64, "c": 64, "f": 5, "g": 5} and composed["h"] == "64-64"


def test_variants_that_this_machine_lacks_are_left_out(monkeypatch):
    monkeypatch.setattr("repro.strategies.horovod.missing_horovod", lambda: "Horovod is not installed")
    with pytest.raises(NotHere, match="make setup-horovod"):
        expand_runs("baselines/side-by-side", ["testbed=here", "method=Horovod"])
    lacking = []
    runs = expand_runs("baselines/side-by-side", ["testbed=here", "method=DDP,Horovod"], lacking=lacking)
    assert {run.variant for run in runs} == {"DDP"} and {str(error) for error in lacking} == {str(lacking[0])}


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_horovod_without_cuda_is_left_out_of_runs_on_gpus(monkeypatch, device):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("repro.strategies.horovod.missing_horovod", lambda: None)
    monkeypatch.setattr("repro.strategies.horovod.built_with_cuda", lambda: False)
    lacking = []
    runs = expand_runs(
        "baselines/side-by-side", ["testbed=here", f"device={device}", "method=Horovod"], lacking=lacking
    )
    assert bool(runs) == (device == "cpu") == (not lacking)
    assert all("HOROVOD_GPU_OPERATIONS=NCCL make setup-horovod" in str(error) for error in lacking)


def test_a_testbed_may_select_values_of_a_factor():
    resolved = config.compose("ibatch/fig5-vgg19")
    variants, testbeds = config.read_axes(resolved, [])
    workers = {
        name: {
            each.factors.get("workers") for each in grid.select_variants(variants, grid.split_overrides(overrides)[1])
        }
        for name, overrides in testbeds.items()
    }
    assert workers["emulated/ibatch"] < workers["paper/ibatch"]


def test_a_gpu_adds_breakdown_runs_to_the_measured_ones(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    runs = expand_runs(FIG4, ["seeds=2", "strategy=dsync,pipe_sgd"])
    exact = [run for run in runs if run.config.breakdown]
    measured = [run for run in runs if run.config.testbed.kind == "measured" and not run.config.breakdown]
    assert exact and [run.config.variant for run in exact] == [run.config.variant for run in measured if run.seed == 0]
    assert {run.config.testbed.kind for run in exact} == {"measured"} and len({run.label for run in runs}) == len(runs)
    for without in ("device=cpu", "breakdown_steps=0"):
        assert not any(run.config.breakdown for run in expand_runs(FIG4, ["strategy=dsync", without]))


def test_a_breakdown_run_is_a_part_of_the_training_behind_the_warm_up(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    configs = [run.config for run in expand_runs("pipesgd/fig4-alexnet", ["testbed=here", "seeds=1"])]
    whole, exact = ([each for each in configs if each.breakdown is breakdown] for breakdown in (False, True))
    warmup = [getattr(each.strategy.options, "warmup_epochs", None) for each in whole]
    assert 4 in warmup
    assert [getattr(each.strategy.options, "warmup_epochs", None) for each in exact] == [w and 0 for w in warmup]
    assert {each.epochs for each in exact} == {each.epochs for each in whole}  # the schedule is the run's
    assert TrainingPlan.of(whole[0], 5005).iterations == whole[0].epochs * 5005
    assert TrainingPlan.of(exact[0], 5005).iterations == 300
    everything = exact[0].model_copy(update={"breakdown_steps": None})
    assert TrainingPlan.of(everything, 5005) == TrainingPlan.of(whole[0], 5005)


def test_simulated_ranks_compute_on_a_gpu_only_with_device_cuda(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    on = ["strategy=dsync", "testbed=virtual"]
    cuda, auto, timing = (
        expand_runs(FIG4, [*on, *more])[0].config
        for more in (["device=cuda"], [], ["testbed.arithmetic=none", "device=cuda"])
    )
    assert uses_gpu(cuda) and not uses_gpu(auto) and not cuda.breakdown and timing.wanted_device == "cpu"


def test_every_file_of_every_group_composes():
    """One of each group in a composition, of which each costs a merge by Hydra."""
    composer = Composer(FIG4)
    for names in itertools.zip_longest(*map(files.group_names, files.GROUPS)):
        chosen = {group: name for group, name in zip(files.GROUPS, names, strict=True) if name}
        composed = composer.compose([f"{group}={name}" for group, name in chosen.items()])
        assert {group: composed[group]["name"] for group in chosen} == chosen
