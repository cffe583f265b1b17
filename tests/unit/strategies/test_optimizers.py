"""RMSprop, learning-rate schedules, keys of optimizers, and averaging of parameters."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from repro.experiment.expand import expand_runs
from repro.experiment.key import keyed_values
from repro.experiment.optimizer import Optimizer, effective_optimizer
from repro.testing import small
from repro.testing.small import SGD
from repro.training.model_shard import ModelShard
from repro.training.optimizers import Schedule

CPU = torch.device("cpu")
RMS = SGD.model_copy(update={"name": "rmsprop", "alpha": 0.9, "eps": 0.5, "lr": 0.01})
FIG4 = "pipesgd/fig4-mnist"


def test_three_updates_by_hand():
    part = ModelShard(small.model(), RMS.model_copy(update={"momentum": 0.8, "weight_decay": 0.1}), CPU)
    expected, squares, momentum = part.weights.clone(), torch.zeros(part.size), torch.zeros(part.size)
    for step in range(3):
        gradient = torch.linspace(-1, 1 + step, part.size)
        part.update(gradient.clone())
        gradient = gradient + 0.1 * expected
        squares = 0.9 * squares + 0.1 * gradient**2
        momentum = 0.8 * momentum + gradient / (squares.sqrt() + 0.5)
        expected -= 0.01 * momentum
        torch.testing.assert_close(part.weights, expected)


@pytest.mark.parametrize("name", ["dsync", "ps_async", "pipe_sgd"])
def test_strategies_train_with_it_and_go_on_after_a_resume(name):
    whole = small.run(name, optimizer=RMS)
    assert whole.digests == small.run(name, optimizer=RMS, stop_and_resume_at=7).digests
    assert whole.digests != small.run(name, optimizer=SGD.model_copy(update={"lr": 0.01})).digests


def test_the_rate_decays_every_two_epochs():
    """PipeDream's section 5.1: 0.045, decayed every two epochs by 0.94."""
    inception = Optimizer(lr=0.045, schedule="exponential", every=2, decay=0.94)
    schedule = Schedule(inception, 3)
    assert [schedule.rate(t) for t in (1, 6)] == [0.045] * 2
    assert [schedule.rate(t) for t in (7, 12)] == pytest.approx([0.045 * 0.94] * 2)
    assert [schedule.rate(t) for t in (13, 601)] == pytest.approx([0.045 * 0.94**2, 0.045 * 0.94**100])
    steps = Schedule(inception.model_copy(update={"schedule": "step", "milestones": [2, 4, 6]}), 3)
    assert [schedule.rate(t) for t in range(1, 24)] == pytest.approx([steps.rate(t) for t in range(1, 24)])
    often = Schedule(inception.model_copy(update={"every": 0.5}), 4)
    assert [often.rate(t) / 0.045 for t in (2, 3)] == pytest.approx([1, 0.94])


def test_a_key_has_optimizer_options_only_if_they_matter():
    def key(*overrides: str) -> dict:
        return keyed_values(expand_runs(FIG4, ["strategy=dsync", "testbed=virtual", *overrides])[0].config)

    plain = key()
    assert plain["optimizer"].keys() == {"lr"}
    assert key("optimizer.name=sgd", "optimizer.alpha=0.99", "optimizer.eps=1e-8") == plain
    for changed in ("optimizer.name=rmsprop", "optimizer.every=2", "optimizer.eps=0.1"):
        assert key(changed) != plain
    vgg = "model=vgg16", "dataset=cifar10"
    assert "width" not in key(*vgg)["model"] and key(*vgg) == key(*vgg, "model.width=1.0")
    assert key(*vgg, "model.width=0.5")["model"]["width"] == 0.5


def test_reports_show_options_that_matter():
    old = {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "schedule": "constant", "milestones": [], "decay": 0.1}
    new = old | {"name": "sgd", "alpha": 0.99, "eps": 1e-8, "every": None}
    assert effective_optimizer(new) == effective_optimizer(old) == dict(list(old.items())[:3])
    rmsprop = new | {"name": "rmsprop", "schedule": "exponential", "every": 2, "decay": 0.94}
    assert effective_optimizer(rmsprop) == {k: v for k, v in rmsprop.items() if k != "milestones"}
    step = effective_optimizer(new | {"schedule": "step", "milestones": [3]})
    assert step["milestones"] == [3] and step["decay"] == 0.1 and "name" not in step


@pytest.mark.parametrize("schedule", get_args(Optimizer.model_fields["schedule"].annotation))
def test_an_option_is_shown_if_the_schedule_depends_on_it(schedule):
    values = {"lr": 0.1, "schedule": schedule, "milestones": [2], "decay": 0.5, "every": 2, "over": 8, "power": 2.0}
    rates = [Schedule(Optimizer(**values), 3).rate(t) for t in range(1, 20)]
    for option, other in {"milestones": [3], "decay": 0.3, "every": 3, "over": 9, "power": 3.0}.items():
        changed = [Schedule(Optimizer(**values | {option: other}), 3).rate(t) for t in range(1, 20)]
        assert (option in effective_optimizer(values)) == (changed != rates), option


# --- averaging parameters instead of gradients


NAME = "parameter_averaging"
MOMENTUM = small.SGD.model_copy(update={"momentum": 0.9, "weight_decay": 1e-2})


@pytest.mark.parametrize(("workers", "algorithm"), [(2, "auto"), (3, "recursive_doubling"), (6, "ring")])
def test_without_a_codec_it_is_synchronous_sgd_up_to_rounding(workers, algorithm):
    averaged = small.run(NAME, {"algorithm": algorithm}, workers=workers, optimizer=MOMENTUM)
    dsync = small.run("dsync", workers=workers, optimizer=MOMENTUM)
    assert len(set(averaged.digests)) == 1
    torch.testing.assert_close(averaged.weights[0], dsync.weights[0])
    torch.testing.assert_close(torch.tensor(averaged.losses), torch.tensor(dsync.losses))


def test_momentum_is_each_workers_own():
    """The parameters agree after every iteration, the momentum buffers never: each sees its own gradients alone."""
    weights, buffers = small.initial_weights(), [None, None]
    for iteration in range(12):
        own = []
        for worker in (0, 1):
            gradient = small.serial_gradient(weights, iteration, worker, 2).add(weights, alpha=1e-2)
            buffer = buffers[worker]
            buffers[worker] = gradient if buffer is None else buffer.mul(0.9).add(gradient)
            own.append(weights.add(buffers[worker], alpha=-small.SGD.lr))
        weights = (own[0] + own[1]).div(2)
    assert not torch.allclose(*buffers)
    run = small.run(NAME, optimizer=MOMENTUM)
    assert torch.equal(run.weights[0], weights) and len(set(run.digests)) == 1


def test_one_worker_with_a_codec_is_sgd_on_rounded_weights():
    weights = small.initial_weights()
    for iteration in range(12):
        weights = weights.add(small.serial_gradient(weights, iteration, 0, 1), alpha=-small.SGD.lr)
        weights = (weights.view(torch.int32) & ~0xFFFF).view(torch.float32)
    assert torch.equal(small.run(NAME, {"codec": "truncate16"}, workers=1).weights[0], weights)
