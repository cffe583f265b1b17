"""Learning-rate schedules: the rate of each update, in the optimizer, after resumes and in every strategy."""

from __future__ import annotations

import math

import pytest
import torch

from repro import strategies
from repro.core.errors import InputError
from repro.core.fields import check_fields
from repro.experiment.optimizer import Optimizer
from repro.testing import real, small
from repro.training.model_shard import ModelShard
from repro.training.optimizers import Schedule

STEP = {"schedule": "step", "milestones": [0.5, 1.0], "decay": 0.5}  # epochs of 10 iterations: after 5 and 10
INVERSE = {"schedule": "inverse"}  # another rate at every update


def rates(optimizer, updates, updates_per_epoch=10):
    schedule = Schedule(small.SGD.model_copy(update=optimizer), updates_per_epoch)
    return [schedule.rate(t) for t in range(1, updates + 1)]


def test_rates_of_each_schedule():
    assert rates({}, 4) == rates({"schedule": "constant"}, 4) == [0.1] * 4
    assert rates({"schedule": "inverse_sqrt"}, 4) == pytest.approx([0.1 / math.sqrt(t) for t in (1, 2, 3, 4)])
    assert rates({"schedule": "inverse"}, 4) == [0.1, 0.05, 0.1 / 3, 0.025]
    # a milestone's own update is the last at the old rate
    assert rates(STEP, 12) == [0.1] * 5 + [0.05] * 5 + [0.025] * 2


COSINE = {"schedule": "cosine", "over": 1.2}  # epochs: 12 updates
POLYNOMIAL = {"schedule": "polynomial", "over": 0.5, "power": 2}


def test_schedules_that_end_are_0_from_there_on():
    cosine = rates(COSINE, 14)
    assert cosine == pytest.approx([0.05 * (1 + math.cos(math.pi * done / 12)) for done in range(12)] + [0, 0])
    assert cosine[0] == 0.1 and cosine[6] == pytest.approx(0.05)  # half the rate after half of the updates
    assert rates(POLYNOMIAL, 7) == pytest.approx([0.1 * (1 - done / 5) ** 2 for done in range(5)] + [0, 0])
    warm = rates(COSINE | {"warmup": [0.5]}, 12)  # counted from the first update, whatever the warm-up takes of it
    assert warm == pytest.approx([0.5 * rate for rate in cosine[:10]] + cosine[10:12])


def test_a_schedule_without_an_end_of_its_own_goes_over_the_run():
    whole = small.SGD.model_copy(update={"schedule": "cosine"})
    assert whole.within(30).over == 30 and whole.within(30).within(2).over == 30
    assert small.SGD.within(30).over is None


def part(optimizer=small.SGD):
    return ModelShard(small.model(), optimizer, torch.device("cpu"), iterations_per_epoch=10)


def moved(part, **how):
    """How far an update with a gradient of ones moves the first weight."""
    before = part.weights[0].item()
    part.update(torch.ones(part.size), **how)
    return before - part.weights[0].item()


def test_a_factor_is_for_one_update_and_the_base_rate_does_not_drift():
    one, other = part(), part()
    for _ in range(50):
        moved(one, lr_factor=1 / 3)
    other.weights.copy_(one.weights)
    assert moved(one) == moved(other) == pytest.approx(0.1, rel=1e-5)
    assert moved(one, lr_factor=0.5) == pytest.approx(0.05, rel=1e-5)
    assert one.schedule.optimizer.lr == 0.1


def test_a_server_that_applies_every_gradient_by_itself_counts_workers_updates_as_one():
    served = part(small.SGD.model_copy(update={"schedule": "inverse"}))
    served.updates_per_iteration = 3
    assert [moved(served) for _ in range(7)] == pytest.approx([0.1] * 3 + [0.05] * 3 + [0.1 / 3], rel=1e-4)


@pytest.fixture(scope="module")
def scheduled_sgd():
    """Weights after 12 plain updates with another rate at each."""
    weights = part().weights.clone()
    for t in range(1, 13):
        weights.add_(small.serial_gradient(weights, t - 1, 0, 1), alpha=-rates(INVERSE, t)[-1])
    return weights


@pytest.mark.parametrize("name", real.strategy_names())
def test_one_worker_is_sgd_with_the_schedule(name, scheduled_sgd):
    optimizer = small.SGD.model_copy(update=INVERSE)
    run = small.run(name, dict(strategies.load_strategy(name).neutral), workers=1, optimizer=optimizer)
    assert torch.equal(run.weights[0], scheduled_sgd)


@pytest.mark.parametrize("name", real.strategy_names())
def test_a_resume_continues_the_schedule(name):
    schedule = COSINE if name in ("dsync", "pipe_sgd") else INVERSE  # one that ends, too
    optimizer = small.SGD.model_copy(update=schedule | {"momentum": 0.9})
    whole = small.run(name, workers=2, optimizer=optimizer)
    assert small.run(name, workers=2, optimizer=optimizer, stop_and_resume_at=7).digests == whole.digests


@pytest.mark.parametrize(("optimizer", "complaint"), [
    ({"nesterov": True}, r"unknown option 'optimizer\.nesterov'; nearest: optimizer"),
    ({"schedule": "linear"}, "optimizer.schedule=linear.*constant.*cosine"),
    ({"schedule": "step"}, r"optimizer.milestones=\[\].*at least one"),
    ({"milestones": [2, 1]}, r"optimizer.milestones=\[2.0, 1.0\]"),
    ({"schedule": "exponential"}, "optimizer.every=null: schedule=exponential needs"),
    ({"warmup": [0.5, 0]}, "optimizer.warmup.1=0: must be above 0"),
    ({"name": "rmsprop", "alpha": 1}, "optimizer.alpha=1: must be below 1"),
    ({"name": "adamw", "momentum": 0.9}, "optimizer.momentum=0.9: adamw has optimizer.betas instead"),
    ({"name": "adamw", "betas": [0.9, 1.0]}, "optimizer.betas.1=1.0: must be below 1"),
])  # fmt: skip
def test_bad_entries_are_named(optimizer, complaint):
    with pytest.raises(InputError, match=complaint):
        check_fields(Optimizer, {"lr": 0.1} | optimizer, "optimizer")
