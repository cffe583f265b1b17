"""Small runs on the virtual fabric, in this process: a seeded data set, a tiny model, any strategy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import strategies
from repro.clock import Clock
from repro.data.base import Batches, Split
from repro.evaluate import digest
from repro.fabric import virtual
from repro.part import Part
from repro.timing.costs import Costs
from repro.timing.device import BlockSeconds
from repro.worker import Worker

INPUTS, CLASSES, SAMPLES = 6, 3, 240
NETWORK = virtual.Network(1e-4, 1e-9)
COSTS = Costs(True, {"reduce": 1e-10, "update": 1e-11}, {"sync": 0.0})


def split(seed: int = 7) -> Split:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(SAMPLES, INPUTS, generator=generator)
    return Split(x, (x @ torch.randn(INPUTS, CLASSES, generator=generator)).argmax(1))


def model(seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first, second = nn.Linear(INPUTS, 5), nn.Linear(5, CLASSES)
    return nn.Sequential(OrderedDict(a=nn.Sequential(first, nn.Tanh()), b=nn.Sequential(second)))


SGD = {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}


@dataclass
class Run:
    """What a run of a strategy left: per rank the final weights' digest and flat weights, losses, traffic, time."""

    digests: list[str]
    weights: list[torch.Tensor]
    losses: list[list[float]]
    bytes_sent: list[int]
    seconds: float
    states: list[dict[str, Any]] = field(default_factory=list)
    staleness: list[list[int]] = field(default_factory=list)  # of the updates that each rank's steps reported
    held: list[set[str]] = field(default_factory=list)  # the names of each rank's evaluation weights


def run(
    name: str,
    options: dict[str, Any] | None = None,
    workers: int = 2,
    steps: int = 12,
    batch: int = 4,
    optimizer: dict[str, Any] = SGD,
    settle_every: int = 0,
    stop_and_resume_at: int = 0,
    drain: bool = True,
    iterations_per_epoch: int = 10,
    build_model: Callable[[], nn.Sequential] = model,
    blocks: Callable[[int], BlockSeconds] = lambda rank: BlockSeconds([1e-3, 1e-3], [2e-3, 2e-3]),
    costs: Costs = COSTS,
    arithmetic: bool = True,
) -> Run:
    """`steps` iterations of a strategy; each worker's minibatch has `batch` samples.

    settle_every: settle and take evaluation weights every so many steps, as an evaluation would.
    blocks: rank -> its seconds of each block's passes.
    arithmetic: False for timing alone, on meta tensors; there are no digests then.
    stop_and_resume_at: after that many steps go on with fresh strategies and parts that load the old ones' state.
    """
    strategy_class = strategies.load(name)

    def build(fabric: virtual.VirtualFabric):
        worker = Worker(
            workers=workers,
            fabric=fabric,
            clock=Clock(fabric),
            part=Part(build_model(), optimizer, torch.device("cpu" if arithmetic else "meta"), iterations_per_epoch),
            batches=Batches(split(), batch, 3, iterations_per_epoch * workers),
            iterations_per_epoch=iterations_per_epoch,
            seed=0,
            blocks=blocks(fabric.rank),
            arithmetic=arithmetic,
        )
        strategy = strategy_class(strategy_class.parse(options or {}))
        strategy.setup(worker)
        return worker, strategy

    def main(fabric: virtual.VirtualFabric):
        worker, strategy = build(fabric)
        losses, staleness = [], []
        worker.clock.start()
        for step in range(1, steps + 1):
            report = strategy.step()
            if report.loss is not None:
                losses.append(report.loss.item())
            staleness += report.staleness
            if settle_every and step % settle_every == 0:
                strategy.settle()
                strategy.eval_weights()
            if step == stop_and_resume_at:
                strategy.settle()
                part, state = worker.part.state_dict(), strategy.state_dict()
                strategy.close()
                worker, strategy = build(fabric)
                worker.clock.start()
                worker.part.load_state_dict(part)
                strategy.load_state_dict(state)
        if drain:
            strategy.drain()
        seconds = worker.clock.train_s()
        strategy.settle()
        state = strategy.state_dict()
        strategy.close()
        weights = strategy.eval_weights()
        mine = digest(weights) if arithmetic else "", worker.part.weights.clone(), losses, fabric.bytes_sent
        return *mine, seconds, state, staleness, set(weights)

    results = virtual.run(strategy_class.ranks(workers), main, NETWORK, costs)
    digests, weights, losses, sent, seconds, states, staleness, held = map(list, zip(*results))
    return Run(digests, weights, losses, sent, max(seconds), states, staleness, held)


def serial_gradient(
    weights: torch.Tensor,
    iteration: int,
    worker: int,
    workers: int,
    batch: int = 4,
    build_model: Callable[[], nn.Sequential] = model,
) -> torch.Tensor:
    """The gradient (n,) that `worker` has in an iteration (from 0) at given weights, by plain PyTorch."""
    part = Part(build_model(), SGD, torch.device("cpu"))
    part.weights.copy_(weights)
    x, y = Batches(split(), batch, 3, 10 * workers)[iteration * workers + worker]
    nn.functional.cross_entropy(part.model(x), y).backward()
    return torch.cat([p.grad.view(-1) for p in part.parameters])
