"""A run of Pipe-SGD that records every iteration: losses, distances to the minimiser, gradient norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from repro import probes, strategies
from repro.core.errors import Diverged
from repro.core.not_none import not_none
from repro.data.base import Dataset
from repro.experiment.optimizer import Optimizer
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared.objective import regularised_loss
from repro.rank.factory import build_worker
from repro.strategies.base import set_up
from repro.training.worker import Worker

PROGRESS_EVERY = 100  # iterations


@dataclass(frozen=True)
class Descent:
    """The record of iterations t = 1 .. T.

    losses, comparators: f_t(w_t) and f_t(w*) over the global minibatch. F, L: the largest values of the run.
    snapshots: t -> w_t (n,), the weights that gradient t was computed at.
    """

    losses: list[float]
    comparators: list[float]
    F: float
    L: float
    snapshots: dict[int, torch.Tensor]

    def average_regret(self, minimum: float | None) -> list[float]:
        """(1/t) sum of f_s(w_s) - f_s(w*) over s <= t; `minimum`: f(w*), if every f_t is f."""
        best = self.comparators if minimum is None else [minimum] * len(self.losses)
        total = accumulate(loss - least for loss, least in zip(self.losses, best))
        return [regret / t for t, regret in enumerate(total, start=1)]


def run_descent(
    fabric: Fabric,
    config: RunConfig,
    dataset: Dataset,
    rate: Optimizer,
    mu: float,
    minimiser: torch.Tensor,
    T: int,
    snapshots_at: Sequence[int],
    done: int,
) -> Descent:
    """Run T iterations of plain SGD with the step sizes of `rate`; every rank calls it and gets the same record.

    done: iterations of earlier runs, for the progress bar.
    """
    worker = build_worker(fabric, config.model_copy(update={"optimizer": rate}), dataset)
    shard = worker.model_shard
    worker.loss_function = regularised_loss([p for p in shard.model.parameters() if p.requires_grad], mu)
    strategy = strategies.load_strategy(config.strategy.name)(config.strategy.options)
    set_up(strategy, worker)
    target = minimiser.to(shard.weights)
    norms, distances = record_updates(worker, target)
    losses, snapshots = [], {}
    worker.clock.start()
    for t in range(1, T + 1):
        if t in snapshots_at:
            snapshots[t] = shard.weights.detach().cpu().clone()
        losses.append(not_none(strategy.step().loss))
        if t % PROGRESS_EVERY == 0 or t == T:
            probes.report_progress(done + t, fabric.rank)
    strategy.drain()
    strategy.close()
    distances.append((shard.weights - target).norm())
    comparators = losses_at(worker, target, T)
    mine = torch.stack([torch.stack(losses).double(), comparators.double()]).cpu()
    losses, comparators = torch.stack(fabric.exchange(mine)).mean(0).tolist()
    F, L = torch.stack(distances).max().item() / math.sqrt(2), torch.stack(norms).max().item()
    if not all(map(math.isfinite, (*losses, F, L))):
        raise Diverged(f"the run of {T} iterations diverged: its steps are too long (F, L or mu too small)")
    return Descent(losses, comparators, F, L, snapshots)


def record_updates(worker: Worker, minimiser: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Two lists that every later update extends: the norm of the workers' mean gradient, and ||w - w*|| before it."""
    norms: list[torch.Tensor] = []
    distances: list[torch.Tensor] = []
    update = worker.update

    def recording(total: torch.Tensor, *arguments: Any) -> None:
        norms.append(total.norm() / worker.workers)
        distances.append((worker.model_shard.weights - minimiser).norm())
        update(total, *arguments)

    vars(worker)["update"] = recording
    return norms, distances


@torch.no_grad()
def losses_at(worker: Worker, weights: torch.Tensor, T: int) -> torch.Tensor:
    """This rank's losses (T,) of its first T minibatches at the weights, which the worker's model has afterwards."""
    worker.model_shard.weights.copy_(weights)
    losses = []
    for t in range(T):
        x, y = worker.batches[t * worker.workers + worker.rank]
        losses.append(worker.loss_function(worker.model_shard.model(x), y))
    return torch.stack(losses)
