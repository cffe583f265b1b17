"""Program `virtual_workers`: how fast virtual workers train on one device, against a bare PyTorch loop.

The bare loop takes the workers' minibatches as one, on all cores of a CPU. Both take turns in one process, so that
other load slows both. Before, each variant trains a few steps twice, computed side by side (on a GPU as CUDA
graphs) and one rank after the other, and the weights are compared.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch

from repro import data, models, probes, strategies
from repro.core.errors import InputError
from repro.core.fields import Count, Model
from repro.data.base import Dataset
from repro.experiment.plugins import Plugin
from repro.experiment.schema import RunConfig
from repro.fabric.costs import Costs
from repro.fabric.real.gpus import pick_device
from repro.fabric.virtual import fabric as virtual
from repro.probes import ResultPart, loop
from repro.probes.shared.options import Strategies, needs_real_time
from repro.strategies.base import set_up
from repro.training import optimizers
from repro.training.clock import Clock
from repro.training.compute import Modelled, await_device
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard
from repro.training.side_by_side import TRIALS
from repro.training.worker import Worker

NUMERICS = True
COMPARED = 10  # steps whose weights are compared
GOALS = {"cpu": 0.85, "cuda": 0.8}  # of the bare loop's samples a second
NETWORK, COSTS = virtual.Network(1e-4, 1e-9), Costs(True, {}, {"sync": 0.0})  # any: virtual time is not looked at


class Options(Model):
    workers: Count
    strategies: Strategies
    iterations: Count  # of a turn
    turns: Count  # of each side


class Throughput(ResultPart):
    """side: `bare`, or a variant."""

    turn: int
    side: str
    samples_per_s: float


class VirtualVariant(ResultPart):
    """of_bare: samples a second over the bare loop's, of the fastest turns. difference: of the weights after ten steps
    side by side from those one rank after the other, relative to their norm; 0 if the bits are the same."""

    variant: str
    of_bare: float
    difference: float


class Result(ResultPart):
    """cores: of the machine; the bare loop uses all."""

    workers: int
    cores: int
    rows: list[Throughput]
    variants: list[VirtualVariant]
    goal: float
    met: bool


def check(config: RunConfig) -> None:
    """InputError for a configuration that the bare loop does not implement, or a batch that does not divide."""
    needs_real_time(config)
    loop.check_bare(config)
    if config.batch % config.probe.workers:
        raise InputError(f"batch={config.batch}: must divide among probe.workers={config.probe.workers}")


def run_alone(config: RunConfig) -> probes.Finding:
    probe, dataset, device = config.probe, data.dataset_for(config), pick_device(config.device_of(0), 0)
    cores = len(os.sched_getaffinity(0))
    probes.announce_iterations(probe.turns)
    trained = {name: VirtualWorkers(config, dataset, device, choice) for name, choice in probe.strategies.items()}
    differences = {name: workers.compare() for name, workers in trained.items()}
    bare = loop.Bare(config, dataset, device)
    rows: list[dict[str, Any]] = []
    for turn in range(probe.turns + 1):  # the first one is not counted: it allocates
        torch.set_num_threads(cores)
        seconds = {"bare": time_iterations(bare, probe.iterations, device)}
        seconds |= {name: workers.train(probe.iterations)[1] for name, workers in trained.items()}
        if turn:
            per_s = {name: probe.iterations * config.batch / elapsed for name, elapsed in seconds.items()}
            rows += [{"turn": turn, "side": name, "samples_per_s": rate} for name, rate in per_s.items()]
        probes.report_progress(turn)
    torch.set_num_threads(config.testbed.threads_per_rank)
    best = {side: max(row["samples_per_s"] for row in rows if row["side"] == side) for side in ("bare", *trained)}
    goal = GOALS[device.type]
    variants = [
        {"variant": name, "of_bare": best[name] / best["bare"], "difference": differences[name]} for name in trained
    ]
    result = {
        "workers": probe.workers,
        "cores": cores,
        "rows": rows,
        "variants": variants,
        "goal": goal,
        "met": all(variant["of_bare"] >= goal for variant in variants),
    }
    shown = ", ".join(f"{variant['variant']} {variant['of_bare']:.2f}" for variant in variants)
    line = f"{probe.workers} virtual workers over a bare loop's samples a second: {shown} (goal {goal})"
    metrics = {f"of_bare/{variant['variant']}": variant["of_bare"] for variant in variants}
    return probes.Finding(
        result, metrics, line, config.model.name, sum(p.numel() for p in bare.model.parameters()), dataset
    )


def time_iterations(bare: loop.Bare, iterations: int, device: torch.device) -> float:
    """Wall-clock seconds of so many iterations of the bare loop."""
    began = time.perf_counter()
    bare.turn(iterations)
    return time.perf_counter() - began


class VirtualWorkers:
    """Virtual ranks that train by one strategy."""

    def __init__(self, config: RunConfig, dataset: Dataset, device: torch.device, choice: Plugin):
        self.config, self.dataset, self.device, self.choice = config, dataset, device, choice

    def compare(self) -> float:
        """The distance between the weights after COMPARED steps side by side and one after the other, relative to their
        norm; the largest of all ranks."""
        weights = [self.train(COMPARED, elsewhere)[0] for elsewhere in (True, False)]
        return max(float((a - b).norm() / b.norm()) for a, b in zip(*weights))

    def train(self, iterations: int, elsewhere: bool = True) -> tuple[list[torch.Tensor], float]:
        """Each rank's weights (n,) after TRIALS + `iterations` steps, and the wall-clock seconds of the latter.

        elsewhere: False computes all passes at once, on the main thread.
        """
        strategy = strategies.load_strategy(self.choice.name)
        ranks = strategy.ranks(self.choice.options, self.config.probe.workers)
        results = virtual.run(ranks, lambda fabric: self._rank(fabric, iterations, elsewhere), NETWORK, COSTS)
        return [weights for weights, _ in results], results[0][1]

    def _rank(self, fabric: virtual.VirtualFabric, iterations: int, elsewhere: bool) -> tuple[torch.Tensor, float]:
        worker = self._worker(fabric)
        strategy = strategies.load_strategy(self.choice.name)(self.choice.options)
        set_up(strategy, worker)
        assert isinstance(worker.compute, Modelled)
        worker.compute.side_by_side.elsewhere &= elsewhere
        worker.clock.start()
        began = 0.0
        for step in range(TRIALS + 1 + iterations):
            if step == TRIALS + 1:  # the one before records the graph
                strategy.settle()
                fabric.exchange(None)
                await_device(worker.model_shard)
                began = time.perf_counter()
            strategy.step()
        strategy.settle()
        fabric.exchange(None)
        await_device(worker.model_shard)
        elapsed = time.perf_counter() - began
        strategy.close()
        return worker.model_shard.weights.clone(), elapsed

    def _worker(self, fabric: virtual.VirtualFabric) -> Worker:
        config, dataset, workers = self.config, self.dataset, self.config.probe.workers
        model = models.model_for(config, dataset, "cpu")
        blocks = len(list(model.children()))
        per_epoch = dataset.iterations(config.batch)
        return Worker(
            workers=workers,
            fabric=fabric,
            clock=Clock(fabric),
            model_shard=ModelShard(model, config.optimizer, self.device, per_epoch, config.numerics),
            batches=dataset.train.minibatches(config.batch // workers, workers, config.seed, self.device),
            iterations_per_epoch=per_epoch,
            seed=config.seed,
            blocks=BlockSeconds([1e-3] * blocks, [2e-3] * blocks),
            loss_function=optimizers.loss_of(dataset.task),
        )
