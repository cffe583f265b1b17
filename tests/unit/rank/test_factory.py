"""The worker that is built from a configuration."""

from __future__ import annotations

import torch

from repro import data
from repro.experiment.expand import expand_runs
from repro.fabric.virtual import fabric as virtual
from repro.rank.factory import build_worker
from repro.testing import small
from tests.support.cli import EXPERIMENT, QUICK


def workers(*overrides):
    """The first rank's worker of each planned run, built in virtual time."""
    built = []
    for planned in expand_runs(EXPERIMENT, [*QUICK, "testbed=virtual", "strategy=dsync", *overrides]):
        config = planned.config
        dataset = data.dataset_for(config)
        build = lambda fabric: build_worker(fabric, config, dataset)  # noqa: E731, B023
        built.append(virtual.run(config.workers, build, small.NETWORK, small.COSTS)[0])
    return built


def test_the_seed_determines_order_and_weights():
    one, other = workers("seeds=2")
    (again,) = workers("seeds=1")
    assert torch.equal(one.batches.indices(0), again.batches.indices(0))
    assert not torch.equal(one.batches.indices(0), other.batches.indices(0))
    assert torch.equal(one.model_shard.weights, again.model_shard.weights)
    assert not torch.equal(one.model_shard.weights, other.model_shard.weights)
    assert (one.seed, other.seed) == (0, 1)


def test_minibatches_of_an_epoch():
    (batched,) = workers("seeds=1", "batch=60", "workers=3", "accumulate=2")
    assert batched.batches.per_epoch == batched.iterations_per_epoch * batched.workers
    assert (batched.workers, batched.batches.size, batched.accumulate) == (3, 20, 2)
