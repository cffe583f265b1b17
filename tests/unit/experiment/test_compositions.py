"""Every experiment composes at every scale, and so does every configuration of a group; an experiment's composer has
what Hydra alone composes."""

from __future__ import annotations

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from repro.core.errors import NotHere
from repro.core.paths import CONFIGS
from repro.experiment import config, files, grid
from repro.experiment.compose import Composer
from repro.experiment.expand import expand
from repro.experiment.needs import uses_gpu
from repro.training.stops import TrainingPlan

FIG4 = "pipesgd/fig4-mnist"


@pytest.mark.parametrize("name", config.experiment_names())
def test_every_experiment_composes_at_every_scale(name, monkeypatch):
    resolved = config.compose(name)
    lacking = []  # Horovod, or network namespaces, which not every machine has
    found = expand(name, lacking=lacking)
    if lacking and not found:
        pytest.skip(str(lacking[0]))
    assert len(found) == (points(resolved) - len(lacking)) * resolved["seeds"]
    assert len({run.label for run in found}) == len(found)
    # a scale changes the same for all variants: the first one tells
    axes = config.axes
    monkeypatch.setattr(config, "axes", lambda *given: (axes(*given)[0][:1], axes(*given)[1]))
    for scale in {tuple(changes): scale for scale, changes in resolved["scales"].items()}.values():
        lacking = []
        found = expand(name, scale=scale, lacking=lacking)
        sized = config.compose(name, (), scale)
        assert len(found) == (points(sized) - len(lacking)) * sized["seeds"]


def points(resolved):
    """How many variants there are on all testbeds, some of which leave not all."""
    variants, testbeds = config.axes(resolved, [])
    return sum(len(grid.left(variants, grid.split(there)[1])) for there in testbeds.values())


@pytest.mark.parametrize("overrides", [
    ["strategy=pipe_sgd", "strategy.K=3", "optimizer.lr=0.2", "strategy.codec=quantize8"],
    ["testbed=virtual", "testbed.arithmetic=none", "epochs=0.5", "targets=[0.5,0.6]"],
    ["++optimizer.lr=0.3", "optimizer.lr=0.2", "testbed=virtual", "+testbed.device.iteration_s=0.5"],
    ["+targets=[0.5]", "+probe.new={a: 1}", "+probe.new.b=2"],
    ["epochs=1", "epochs=2", "grid={}"],
])  # fmt: skip
@pytest.mark.parametrize("scale", [None, "quick"])
def test_a_composer_has_what_hydra_alone_composes(overrides, scale):
    composer = Composer(FIG4, scale)
    composer.compose(["seeds=7"])  # leaves no trace in what comes after
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        hydra = OmegaConf.to_container(compose("config", [*composer.first, *overrides]), resolve=True)
    assert composer.compose(overrides) == composer.compose(overrides) == hydra


def test_what_this_machine_lacks_is_left_out_by_the_variant(monkeypatch):
    monkeypatch.setattr("repro.strategies.horovod.missing", lambda: "Horovod is not installed")
    with pytest.raises(NotHere, match="make setup-horovod"):
        expand("baselines/side-by-side", ["testbed=here"])
    lacking = []
    found = expand("baselines/side-by-side", ["testbed=here"], lacking=lacking)
    assert len(found) == 9 and [str(error) for error in lacking] == 2 * [str(lacking[0])]
    assert "DDP" in {run.variant for run in found} and "Horovod" not in {run.variant for run in found}


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_horovod_without_cuda_is_left_out_before_ranks_start(monkeypatch, device):
    """Where gradients are on a GPU; on a CPU it does."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("repro.strategies.horovod.missing", lambda: None)
    monkeypatch.setattr("repro.strategies.horovod.built_with_cuda", lambda: False)
    lacking = []
    found = expand("baselines/side-by-side", ["testbed=here", f"device={device}"], lacking=lacking)
    assert ("Horovod" in {run.variant for run in found}) == (device == "cpu") == (not lacking)
    assert all("HOROVOD_GPU_OPERATIONS=NCCL make setup-horovod" in str(error) for error in lacking)


def test_a_testbed_may_have_some_of_a_factors_values_alone():
    found = expand("ibatch/fig5-vgg19")
    workers = {
        bed: {run.config.workers for run in found if run.config.testbed.name == bed}
        for bed in ("paper/ibatch", "emulated/ibatch")
    }
    assert workers["emulated/ibatch"] == {1, 6, 12, 24, 30} < workers["paper/ibatch"]


def test_a_gpu_adds_breakdown_runs_to_the_measured_ones(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    found = expand(FIG4, ["seeds=2"])
    exact = [run for run in found if run.config.breakdown]
    measured = [run for run in found if run.config.testbed.kind == "measured" and not run.config.breakdown]
    assert exact and [run.config.variant for run in exact] == [run.config.variant for run in measured if run.seed == 0]
    assert {run.config.testbed.kind for run in exact} == {"measured"} and len({run.label for run in found}) == len(
        found
    )
    for without in ("device=cpu", "breakdown_steps=0"):
        assert not any(run.config.breakdown for run in expand(FIG4, [without]))


def test_a_breakdown_run_is_a_part_of_the_training_behind_the_warm_up(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    alexnet = ["testbed=here", "seeds=1"]
    whole, exact = (
        [run.config for run in expand("pipesgd/fig4-alexnet", alexnet) if run.config.breakdown is breakdown]
        for breakdown in (False, True)
    )
    pipelined = [config.strategy.name == "pipe_sgd" for config in whole]
    assert [config.strategy.options.warmup_epochs for config in whole if config.strategy.name == "pipe_sgd"] == [4] * 3
    assert [getattr(config.strategy.options, "warmup_epochs", None) == 0 for config in exact] == pipelined
    assert {config.epochs for config in exact} == {config.epochs for config in whole}  # the schedule is the run's
    assert [TrainingPlan.of(config, 5005).iterations for config in (whole[0], exact[0])] == [
        whole[0].epochs * 5005,
        300,
    ]
    everything = exact[0].model_copy(update={"breakdown_steps": None})
    assert TrainingPlan.of(everything, 5005) == TrainingPlan.of(whole[0], 5005)


def test_simulated_ranks_compute_on_a_gpu_where_they_are_told_to(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    (told,), (usual,) = (expand(FIG4, ["strategy=dsync", "testbed=virtual", *more]) for more in (["device=cuda"], []))
    assert uses_gpu(told.config) and not uses_gpu(usual.config) and not told.config.breakdown
    (nothing,) = expand(FIG4, ["strategy=dsync", "testbed=virtual", "testbed.arithmetic=none", "device=cuda"])
    assert nothing.config.wanted_device == "cpu"


@pytest.mark.parametrize("group", files.GROUPS)
def test_every_file_of_a_group_composes(group):
    for name in files.group_names(group):
        assert config.compose(FIG4, [f"{group}={name}"])[group]["name"] == name
