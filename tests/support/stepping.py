"""Virtual times of a strategy's steps and of collectives; costs of codecs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.strategies import load_strategy
from repro.testing.small import SGD, NoBatches
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker

CODEC_COSTS = Costs(
    True,
    {
        "reduce": 1e-10, "update": 3e-11,
        "encode/truncate16": 5e-11, "decode/truncate16": 4e-11, "encode/quantize8": 9e-11, "decode/quantize8": 7e-11,
        "encode/ternary": 4e-9, "decode/ternary": 2e-9,
    },
    {"sync": 2e-5, "encode/quantize8": 3e-6, "decode/ternary": 1e-7},
)  # fmt: skip


def timed_call(
    call: Callable, ranks: int, elements: int, network: virtual.Network, costs: Costs, device: str = "meta"
) -> float:
    """Seconds until the last rank has ended `call(fabric, vector)`."""

    def main(fabric: virtual.VirtualFabric) -> float:
        call(fabric, torch.ones(elements, device=device))
        return fabric.now()

    return max(virtual.run(ranks, main, network, costs))


def timed_steps(
    name: str, options: dict, workers: int, steps: int, blocks: list[nn.Module], seconds: BlockSeconds,
    network: virtual.Network, costs: Costs,
) -> tuple[float, list[float]]:  # fmt: skip
    """(time when the last rank ends, rank 0's time after each step) of a model on meta tensors."""
    strategy_class = load_strategy(name)
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
