"""Builds a rank's worker, and a simulated testbed's costs and network, from the run's configuration."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from repro import models
from repro.algorithms import imbalance
from repro.core.errors import InputError
from repro.data.base import Dataset
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import NAMED_WORK, WORK, Device, Modelled
from repro.fabric.base import Fabric
from repro.fabric.capabilities import lacking_error
from repro.fabric.costs import Costs
from repro.fabric.real.gpus import pick_device
from repro.fabric.virtual.network import Network
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


def virtual_costs(testbed: Modelled) -> Costs:
    """The costs of host work on a modelled testbed."""
    per_byte = {kind: getattr(testbed, entry) for kind, entry in WORK.items()}
    # sparse gradients: selection and exchange are charged by the bytes of the whole gradient, merging and summation by
    # the bytes of all messages
    per_byte["sum"] = per_byte["merge"] if testbed.sum_s_per_byte is None else testbed.sum_s_per_byte
    for kind in NAMED_WORK:
        per_byte |= {f"{kind}/{name}": cost for name, cost in getattr(testbed, f"{kind}_s_per_byte").items()}
    # startup of a pull of parameters: finding the servers, opening connections (iBatch's T_s)
    return Costs(True, per_byte, {"sync": testbed.sync_s, "startup": testbed.startup_s}, testbed.pull_threads)


def virtual_network(testbed: Modelled, seed: int = 0) -> Network:
    """The network of a modelled testbed; seed: the run's, from which shares of links are drawn."""
    return Network(
        testbed.alpha_s,
        testbed.beta_s_per_byte,
        fair=testbed.fair,
        spread=testbed.share_spread,
        seed=seed,
        short=testbed.short_bytes or 0,
        hosts=testbed.hosts,
        switch_hosts=testbed.switch_hosts,
        shuffled=testbed.shuffled,
        local_alpha=testbed.local_alpha_s,
        local_beta=testbed.local_beta_s_per_byte,
        congestion=tuple(sorted(testbed.congestion.items())),
        lost=testbed.lost_messages,
        resend=testbed.resend_s if testbed.lost_messages else 0.0,
    )
