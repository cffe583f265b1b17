"""What a configuration makes of a rank's worker."""

from __future__ import annotations

import pytest
import torch

from repro import data
from repro.experiment.expand import expand
from repro.fabric.virtual import fabric as virtual
from repro.rank.factory import build_worker
from repro.testing import small
from tests.support.cli import EXPERIMENT, QUICK


def workers(*given):
    """The first rank's worker of each planned run, built in virtual time."""
    found = []
    for planned in expand(EXPERIMENT, [*QUICK, "testbed=virtual", "strategy=dsync", *given]):
        config = planned.config
        dataset = data.of(config)
        build = lambda fabric: build_worker(fabric, config, dataset)  # noqa: E731, B023
        found.append(virtual.run(config.workers, build, small.NETWORK, small.COSTS)[0])
    return found


@pytest.fixture(scope="module")
def seeds():
    """Those of two seeds."""
    return workers("seeds=2")


def test_a_seed_shuffles_the_data_and_draws_the_weights(seeds):
    one, other = seeds
    (again,) = workers("seeds=1")
    assert torch.equal(one.batches.indices(0), again.batches.indices(0))
    assert not torch.equal(one.batches.indices(0), other.batches.indices(0))
    assert torch.equal(one.model_shard.weights, again.model_shard.weights)
    assert not torch.equal(one.model_shard.weights, other.model_shard.weights)
    assert (one.seed, other.seed) == (0, 1)


def test_an_epoch_has_as_many_minibatches_as_iterations_and_workers(seeds):
    worker = seeds[0]
    assert worker.batches.per_epoch == worker.iterations_per_epoch * worker.workers
    (batched,) = workers("seeds=1", "batch=60", "workers=3", "accumulate=2")
    assert (batched.workers, batched.batches.size, batched.accumulate) == (3, 20, 2)
