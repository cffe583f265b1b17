"""One rank of the benchmark `pipelining`: our pipelines and torch's on one stage of one model, in turns.

Rank 0 prints `@{...}` for each job of a JSON argument (`repro.bench.rank_program`):

    {"model": of MODELS, "sides": of SIDES and TORCHS, "batch": samples of a minibatch,
     "flush": minibatches of an update, "minibatches": of a turn, "turns"}

A line's `seconds` holds one row: {"seconds": {side: one a turn, of the slowest rank}, "apart": {side: by how much its
weights are from those of the side that it is compared with, where updates are the same}, "parameters", "cuts"}.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.distributed import pipelining
from torch.nn import functional

from repro import models, strategies
from repro.bench.pipelining import COMPARED
from repro.bench.rank_program import main
from repro.data.base import Minibatches
from repro.experiment.optimizer import Optimizer
from repro.fabric.real.torch_dist import TorchFabric
from repro.rank.main import guarded
from repro.strategies.torch_pipelining import flushing
from repro.training.clock import Clock
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker

OPTIMIZER: dict[str, Any] = {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.0}
SEED, CLASSES, WIDTH = 1, 10, 512
CPU = torch.device("cpu")


def mlp() -> nn.Sequential:
    """Eight equal blocks, so that stages of as many blocks are balanced."""
    sizes = [WIDTH] * 8 + [CLASSES]
    blocks = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
    return nn.Sequential(OrderedDict((f"fc{number}", block) for number, block in enumerate(blocks)))


@dataclass(frozen=True)
class Workload:
    """A model's input of one sample, and its cuts by the number of stages (about equal times on a CPU)."""

    input_shape: tuple[int, ...]
    cuts: dict[int, list[int]]

    def build(self, name: str) -> nn.Sequential:
        if name == "mlp":
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(SEED)
                return mlp()
        return models.build(name, self.input_shape, CLASSES, SEED, width=0.125)


MODELS = {
    "mlp": Workload((WIDTH,), {2: [4], 4: [2, 4, 6]}),
    "vgg16": Workload((3, 32, 32), {2: [3], 4: [1, 3, 6]}),
}
# side -> our strategy, or torch's schedule as strategy torch_pipelining calls it
SIDES = {"1f1b-flush": "one_f_one_b_flush", "gpipe": "gpipe", "1f1b": "pipedream"}
TORCHS = {"torch 1f1b": "1f1b", "torch gpipe": "gpipe"}


class Flushes(Minibatches):
    """Seeded samples, drawn before: the minibatches of a few flushes, over and over.

    x, y   of each flush, all its minibatches behind each other
    """

    HELD = 4

    def __init__(self, workload: Workload, batch: int, flush: int):
        self.size, self.flush, self.per_epoch = batch, flush, self.HELD * flush
        generator = torch.Generator().manual_seed(SEED)
        self.x = [torch.randn(batch * flush, *workload.input_shape, generator=generator) for _ in range(self.HELD)]
        self.y = [torch.randint(CLASSES, (batch * flush,), generator=generator) for _ in range(self.HELD)]

    def __getitem__(self, minibatch_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        flush, place = divmod(minibatch_id, self.flush)
        rows = slice(place * self.size, (place + 1) * self.size)
        return self.x[flush % self.HELD][rows], self.y[flush % self.HELD][rows]


class Side(ABC):
    """One way to train a stage."""

    @abstractmethod
    def train(self, first: int, last: int) -> None:
        """Minibatches first to last - 1, and all that they leave behind but what is in flight."""

    @abstractmethod
    def weights(self) -> torch.Tensor:
        """This rank's, as one vector."""

    def close(self) -> None:
        return None


class Ours(Side):
    def __init__(self, fabric: TorchFabric, name: str, job: dict[str, Any], total: int):
        workload = MODELS[job["model"]]
        self.clock = Clock(fabric)
        worker = Worker(
            workers=fabric.size,
            fabric=fabric,
            clock=self.clock,
            model_shard=ModelShard(workload.build(job["model"]), Optimizer(**OPTIMIZER), CPU),
            batches=Flushes(workload, job["batch"], job["flush"]),
            iterations_per_epoch=1,
            seed=SEED,
            iterations=total // fabric.size,
        )
        options = {"config": "-".join(["1"] * fabric.size), "cuts": workload.cuts[fabric.size]}
        if name != "pipedream":
            options["flush"] = job["flush"]
        strategy_class = strategies.load(name)
        self.strategy = strategy_class(strategy_class.parse(options))
        self.strategy.setup(worker)
        self.clock.start()

    def train(self, first: int, last: int) -> None:
        strategy = self.strategy
        for _ in range(strategy.steps(first), strategy.steps(last)):
            strategy.step()
        strategy.settle()
        self.clock.take()

    def weights(self) -> torch.Tensor:
        return self.strategy.worker.model_shard.weights

    def close(self) -> None:
        self.strategy.drain()
        self.strategy.close()


class Torchs(Side):
    def __init__(self, fabric: TorchFabric, schedule: str, job: dict[str, Any]):
        workload = MODELS[job["model"]]
        self.batches, self.flush = Flushes(workload, job["batch"], job["flush"]), job["flush"]
        whole, rank = workload.build(job["model"]), fabric.rank
        firsts = [0, *workload.cuts[fabric.size], len(whole)]
        self.part = whole[firsts[rank] : firsts[rank + 1]]
        stage = pipelining.PipelineStage(self.part, rank, fabric.size, CPU, group=fabric.process_group())
        self.step = flushing(schedule, [stage], self.flush, functional.cross_entropy)
        self.inputs, self.outputs = rank == 0, rank == fabric.size - 1
        self.optimizer = torch.optim.SGD(self.part.parameters(), **OPTIMIZER)

    def train(self, first: int, last: int) -> None:
        for flush in range(first // self.flush, last // self.flush):
            held = flush % Flushes.HELD
            self.optimizer.zero_grad()
            self.step(self.batches.x[held] if self.inputs else None, self.batches.y[held] if self.outputs else None)
            self.optimizer.step()

    def weights(self) -> torch.Tensor:
        return torch.cat([p.detach().view(-1) for p in self.part.parameters()])


def run_job(fabric: TorchFabric, job: dict[str, Any], turn: int) -> list[Any]:
    """A row; every side trains the same minibatches, the first turn is not counted."""
    minibatches, turns = job["minibatches"], job["turns"]
    total = (turns + 1) * minibatches
    sides = {name: side(fabric, name, job, total) for name in job["sides"]}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for now in range(turns + 1):
        for name in sorted(sides, reverse=bool(now % 2)):
            fabric.exchange(None)
            fabric.barrier()
            began = fabric.now()
            sides[name].train(now * minibatches, (now + 1) * minibatches)
            seconds[name].append(max(fabric.exchange(fabric.now() - began)))
    apart = {}
    for mine, other in COMPARED.items():
        if mine in sides and other in sides and mine != "1f1b":
            gap = sides[mine].weights() - sides[other].weights()
            apart[mine] = max(fabric.exchange(float(gap.abs().max())))
    for one in sides.values():
        one.close()
    taken = {name: all_[1:] for name, all_ in seconds.items()}
    cuts = MODELS[job["model"]].cuts[fabric.size]
    parameters = sum(p.numel() for p in MODELS[job["model"]].build(job["model"]).parameters())
    return [{"seconds": taken, "apart": apart, "parameters": parameters, "cuts": cuts}]


def side(fabric: TorchFabric, name: str, job: dict[str, Any], total: int) -> Side:
    return Torchs(fabric, TORCHS[name], job) if name in TORCHS else Ours(fabric, SIDES[name], job, total)


if __name__ == "__main__":
    guarded(lambda: main(json.loads(sys.argv[1]), run_job))
