"""Builds a rank's worker from the run's configuration."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from repro import models
from repro.algorithms import imbalance
from repro.core.errors import InputError
from repro.data.base import Dataset
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import Device, Modelled
from repro.fabric.base import Fabric
from repro.fabric.capabilities import lacking_error
from repro.fabric.real.gpus import pick_device
from repro.strategies.base import Strategy
from repro.training import optimizers
from repro.training.clock import Clock
from repro.training.cuda_timer import DeviceTimes
from repro.training.device_times import BlockSeconds, BlockWork, block_work, seconds_of
from repro.training.model_shard import ModelShard
from repro.training.stops import TrainingPlan
from repro.training.worker import Worker


def check_ranks(fabric: Fabric, strategy: Strategy, config: RunConfig) -> None:
    """InputError if the strategy needs another number of ranks, or capabilities that the fabric lacks."""
    needed = strategy.ranks(strategy.options, config.workers)
    if fabric.size != needed:
        raise InputError(
            f"{strategy.name} with {config.workers} workers needs {needed} ranks, but {fabric.size} were started"
        )
    if missing := strategy.requires - fabric.capabilities:
        raise lacking_error(strategy.name, missing, getattr(fabric, "backend", fabric.name))


@lru_cache(maxsize=64)
def modelled_work(
    model: str, input_shape: tuple[int, ...], classes: int, batch: int, options: tuple[tuple[str, Any], ...] = ()
) -> BlockWork:
    """`block_work` of a model by name. Cached, because counting FLOPs takes longer than many virtual steps."""
    built = models.build_model(model, input_shape, classes, 0, "meta", **dict(options))
    return block_work(built, input_shape, batch)


def modelled_seconds(
    model: str,
    input_shape: tuple[int, ...],
    classes: int,
    batch: int,
    device: Device,
    options: tuple[tuple[str, Any], ...] = (),
) -> BlockSeconds:
    """`block_seconds` of a model by name."""
    return seconds_of(modelled_work(model, input_shape, classes, batch, options), device)


def build_worker(fabric: Fabric, config: RunConfig, dataset: Dataset, clock: type[Clock] = Clock) -> Worker:
    """The worker of this rank; its initial weights, drawn from the seed, are the same on every rank."""
    device = pick_device(config.device_of(fabric.rank), 0 if config.simulated else fabric.rank)
    testbed, workers = config.testbed, config.workers
    arithmetic = not config.timing_only
    iterations_per_epoch = dataset.iterations(config.batch)

    blocks = None
    if isinstance(testbed, Modelled):
        shape = (config.model.name, tuple(dataset.input_shape), dataset.classes)
        options = tuple(config.model.options.items())
        blocks = modelled_seconds(*shape, config.local_batch, testbed.device, options)
    shard_device = device if arithmetic else torch.device("meta")
    model = models.model_for(config, dataset, "cpu" if arithmetic else "meta")

    def synchronise() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    # a breakdown run synchronises at every phase, so the host's clock is as exact
    times = DeviceTimes() if device.type == "cuda" and not config.breakdown and not config.simulated else None
    return Worker(
        workers=workers,
        fabric=fabric,
        clock=clock(fabric, synchronise, config.breakdown, times),
        model_shard=ModelShard(model, config.optimizer, shard_device, iterations_per_epoch, config.numerics),
        batches=dataset.train.minibatches(config.local_batch, workers, config.seed, device),
        iterations_per_epoch=iterations_per_epoch,
        seed=config.seed,
        blocks=blocks,
        arithmetic=arithmetic,
        accumulate=config.accumulate,
        loss_function=optimizers.loss_of(dataset.task),
        imbalance=imbalance.imbalance_for(config),
        min_compute_s=config.min_compute_s,
        iterations=TrainingPlan.of(config, iterations_per_epoch).iterations,
    )
