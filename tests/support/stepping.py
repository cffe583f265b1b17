"""A strategy's steps in virtual time, without arithmetic."""

from __future__ import annotations

import torch
from torch import nn

from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.strategies import load
from repro.testing.small import SGD, NoBatches
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker


def timed_steps(
    name: str,
    options: dict,
    workers: int,
    steps: int,
    blocks: list[nn.Module],
    seconds: BlockSeconds,
    network: virtual.Network,
    costs: Costs,
) -> tuple[float, list[float]]:
    """(the time when the last rank is done, rank 0's time after each step) of a model on meta tensors."""
    strategy_class = load(name)
    parsed = strategy_class.parse(options)

    def main(fabric: virtual.VirtualFabric) -> tuple[float, list[float]]:
        strategy, after = strategy_class(parsed), []
        part = ModelShard(nn.Sequential(*blocks), SGD, torch.device("meta"))
        worker = Worker(workers, fabric, Clock(fabric), part, NoBatches(), 1, 0, seconds, arithmetic=False)
        strategy.setup(worker)
        worker.clock.start()
        for _ in range(steps):
            strategy.step()
            after.append(fabric.now())
        strategy.drain()
        ended = fabric.now()
        strategy.close()
        return ended, after

    results = virtual.run(strategy_class.ranks(parsed, workers), main, network, costs)
    return max(ended for ended, _ in results), results[0][1]
