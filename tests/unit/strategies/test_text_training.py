"""Training on text in virtual time: hidden state carried and reset, resume, evaluation, every rank the same weights."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from repro import data, strategies
from repro.core.errors import InputError
from repro.core.fields import check_fields
from repro.experiment import config as configs
from repro.experiment import needs
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.fabric.virtual import fabric as virtual
from repro.fabric.virtual import modelled
from repro.rank import factory
from repro.rank.session import run_rank
from repro.rank.summary import first_reaching
from repro.strategies.dsync import DSync
from repro.training.evaluation.evaluate import weights_digest
from tests.support.records import read_summary

EXPERIMENT = "pipesgd/fig4-mnist"
TEXT = [
    *("dataset=ptb", "dataset.standin=always", "dataset.words=2000", "dataset.test_words=400", "dataset.bptt=10"),
    *("model=lstm_ptb", "model.hidden=8", "metric=perplexity", "targets=[9000]", "testbed=virtual", "workers=3"),
    *("batch=6", "epochs=2", "eval_every=0.5", "checkpoint_every=0.5", "optimizer.lr=1.0", "strategy=dsync"),
]  # 6 streams of 333 words: 33 iterations an epoch


@functools.cache
def composed(*overrides: str) -> dict[str, Any]:
    return configs.compose(EXPERIMENT, [*TEXT, *overrides])


def configuration(*overrides: str, **changes: Any) -> RunConfig:
    facts = {"variant": "s", "key": "k", "hardware": {"class": "none"}, "provenance": {}}
    return check_fields(RunConfig, composed(*overrides) | facts | changes)


def on_ranks(config: RunConfig, work: Any) -> list[Any]:
    network, costs = modelled.virtual_network(config.testbed), modelled.virtual_costs(config.testbed)
    return virtual.run(needs.strategy_ranks(config), work, network, costs)


def run(config: RunConfig, folder) -> dict[str, Any]:
    """The summary of a run, all ranks in this process."""
    folder.mkdir(exist_ok=True)
    on_ranks(config, lambda fabric: run_rank(fabric, config, folder))
    return read_summary(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(configuration(), tmp_path_factory.mktemp("whole"))


def test_a_run_learns_and_is_scored_by_perplexity(whole):
    curve = [point["perplexity"] for point in whole["curve"]]
    assert curve[0] == pytest.approx(10_000, rel=0.1) and curve[-1] < 0.9 * curve[0]
    assert whole["metric"] == "perplexity" and whole["final"]["perplexity"] == curve[-1]
    first = next(point for point in whole["curve"] if point["perplexity"] <= 9000)
    assert whole["targets"]["9000"]["iteration"] == first["iteration"] > 0
    assert whole["iterations_per_epoch"] == 33 and whole["iterations"] == 66
    assert whole["model"] == {"name": "lstm_ptb", "parameters": 171_152, "hidden": 8, "layers": 2, "dropout": 0.65}
    assert whole["dataset"]["train"] == 1999 and whole["dataset"]["input_shape"] == [10]


def test_a_killed_run_ends_with_the_same_bits(whole, tmp_path, monkeypatch):
    """The hidden state is in the checkpoint: 16 iterations into an epoch it is anything but zero."""
    step, left = DSync.step, [3 * 20]

    def failing(self):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(DSync, "step", failing)
    with pytest.raises(KeyboardInterrupt):
        run(configuration(), tmp_path / "run")
    monkeypatch.setattr(DSync, "step", step)
    again = run(configuration(), tmp_path / "run")
    assert again["wall"]["resumes"] == 1
    assert again["weights_sha256"] == whole["weights_sha256"]
    assert [p["perplexity"] for p in again["curve"]] == [p["perplexity"] for p in whole["curve"]]


def test_evaluating_more_often_changes_nothing(whole, tmp_path):
    often = run(configuration(eval_every=0.1), tmp_path / "run")
    assert len(often["curve"]) > len(whole["curve"]) and often["weights_sha256"] == whole["weights_sha256"]


def one_rank(fabric: Fabric, config: RunConfig, steps: int) -> tuple[str, torch.Tensor | None]:
    """The digest of a rank's weights after so many steps, and the hidden state of its first LSTM layer."""
    worker = factory.build_worker(fabric, config, data.dataset_for(config))
    strategy = strategies.load_strategy(config.strategy.name)(config.strategy.options)
    strategy.setup(worker)
    worker.clock.start()
    for _ in range(steps):
        strategy.step()
    strategy.drain()
    strategy.settle()
    strategy.close()
    return weights_digest(strategy.eval_weights()), worker.model_shard.model.lstm1[0].hidden


@pytest.mark.parametrize("strategy", ["dsync", "pipe_sgd", "ps_sync"])
def test_all_ranks_have_the_same_weights_and_streams_of_their_own(strategy):
    config = configuration(f"strategy={strategy}")
    found = on_ranks(config, lambda fabric: one_rank(fabric, config, 5))
    assert len({weights for weights, _ in found}) == 1
    states = [state for _, state in found[:3]]
    assert all(state.shape == (1, 2, 8) and state.abs().sum() > 0 for state in states)
    assert not torch.equal(states[0], states[1]) and not torch.equal(states[1], states[2])


def test_the_state_goes_on_within_an_epoch_and_begins_again_with_the_next():
    config = configuration("workers=1", "batch=2", "model.dropout=0", "dataset.words=101")  # 5 sequences an epoch
    dataset = data.dataset_for(config)

    def work(fabric: Fabric) -> list[torch.Tensor]:
        worker = factory.build_worker(fabric, config, dataset)
        hidden, begun = worker.model_shard.model.lstm1[0], []
        forward = hidden.lstm.forward
        hidden.lstm.forward = lambda x, state: begun.append(state[0].abs().sum().item()) or forward(x, state)
        worker.clock.start()
        for minibatch in (0, 1, 4, 5, 6, 10):
            worker.gradients(minibatch)
        return begun

    (begun,) = on_ranks(config, work)
    assert [state > 0 for state in begun] == [False, True, True, False, True, False]


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        (
            ["dataset=mnist", "model=mnist_mlp"],
            "metric=perplexity: is defined for text, and data set 'mnist' has images; .*top1",
        ),
        (["accumulate=2"], "accumulate=2: model lstm_ptb carries its state .* must be 1"),
        (["model=resnet20"], "model resnet20 takes images, and ptb is text; models for it: lstm_ptb"),
        (["batch=300"], "batch=300: as many streams of ptb-standin-seeded have 6 words each, fewer than the 10"),
    ],
)
def test_incompatible_options_are_refused_before_a_run(overrides, complaint):
    text = [one for one in TEXT if not one.startswith("dataset.") or "dataset=mnist" not in overrides]
    keys = {one.partition("=")[0] for one in overrides}
    text = [one for one in text if one.partition("=")[0] not in keys]
    if "dataset=mnist" in overrides:
        text.append("dataset.standin=always")
    if "model=lstm_ptb" not in text:
        text = [one for one in text if not one.startswith("model.")]
    with pytest.raises(InputError, match=complaint) as caught:
        identify_runs(expand_runs(EXPERIMENT, [*text, *overrides]))
    assert "\n" not in str(caught.value)


def test_a_perplexity_is_reached_from_above():
    curve = [
        {"iteration": i, "epoch": 0.1 * i, "train_s": 1.0 * i, "perplexity": value, "top1": 1 - (value or 0) / 1000}
        for i, value in enumerate([900.0, None, 200.0, 100.0, 150.0])
    ]
    assert first_reaching(curve, "perplexity", 200)["iteration"] == 2
    assert (
        first_reaching(curve, "perplexity", 120)["iteration"] == 3 and first_reaching(curve, "perplexity", 99) is None
    )
    assert first_reaching(curve, "top1", 0.85)["iteration"] == 1 and first_reaching(curve[:1], "top1", 0.85) is None
