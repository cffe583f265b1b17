"""A convex objective over a training set, its minimiser, and a run of Pipe-SGD on it that records every iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from repro import probes, strategies
from repro.core.errors import Diverged, FaultError
from repro.core.not_none import not_none
from repro.data.base import AnySplit, Dataset, Samples, Split
from repro.experiment.optimizer import Optimizer
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.rank.factory import build_worker
from repro.strategies.base import set_up
from repro.training.worker import Worker

ITERATIONS_A_ROUND, ROUNDS, HISTORY = 50, 60, 50
GAP = 1e-9  # how far above the true minimum the value may be


def regularised_loss(
    parameters: Sequence[torch.Tensor], mu: float
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Mean cross-entropy + mu / 2 ||parameters||^2, as a loss function of logits and labels."""

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        value = functional.cross_entropy(logits, labels)
        return value + mu / 2 * sum(p.square().sum() for p in parameters) if mu else value

    return loss


@dataclass(frozen=True)
class Minimum:
    """weights (n,) float64, in the order of the trainable parameters; value: of the objective there.

    gap: an upper bound of value minus the true minimum, ||gradient||^2 / (2 mu) by strong convexity.
    """

    weights: torch.Tensor
    value: float
    gradient_norm: float
    gap: float


class Objective:
    """The objective over a whole training set, in float64."""

    def __init__(self, model: nn.Module, split: AnySplit, mu: float):
        self.model, self.mu = model.double(), mu
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.loss = regularised_loss(self.parameters, mu)
        assert isinstance(split, Samples)
        x, self.y = split.slice(0, len(split))
        self.x = x.double()
        self.optimizer = torch.optim.LBFGS(
            self.parameters,
            max_iter=ITERATIONS_A_ROUND,
            history_size=HISTORY,
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

    def weights(self) -> torch.Tensor:
        return nn.utils.parameters_to_vector(self.parameters).detach()

    def value(self, weights: torch.Tensor) -> float:
        """The objective at weights (n,) of any precision, which the model has afterwards."""
        with torch.no_grad():
            nn.utils.vector_to_parameters(weights.double(), self.parameters)
            return self.loss(self.model(self.x), self.y).item()

    def backward(self) -> torch.Tensor:
        """The objective at the present weights; computes the gradient."""
        self.optimizer.zero_grad()
        loss = self.loss(self.model(self.x), self.y)
        loss.backward()
        return loss

    def gradient_norm(self) -> float:
        """The norm at the present weights."""
        self.backward()
        return torch.cat([not_none(p.grad).view(-1) for p in self.parameters]).norm().item()

    def descend(self) -> None:
        """One round of L-BFGS, which continues with the curvature estimate of the rounds before."""
        self.optimizer.step(self.backward)

    def minimum(self) -> Minimum:
        """The present weights as the minimum."""
        norm = self.gradient_norm()
        return Minimum(self.weights(), self.value(self.weights()), norm, norm**2 / (2 * self.mu))


def find_minimum(fabric: Fabric, objective: Objective | None) -> Minimum:
    """Rank 0, the only one with an objective, minimises it; every rank gets the minimum, or FaultError."""
    for _ in range(ROUNDS):
        candidate = None
        if objective is not None:
            objective.descend()
            candidate = objective.minimum()
        minimum = not_none(fabric.exchange(candidate)[0])  # after every round, so that no rank waits longer than one
        if minimum.gap <= GAP:
            return minimum
    iterations = ROUNDS * ITERATIONS_A_ROUND
    raise FaultError(f"the minimum was not found: up to {minimum.gap:.1e} above it after {iterations} iterations")


def training_subset(dataset: Dataset, samples: int | None, parts: int) -> Dataset:
    """The data set with its first `samples` training samples (None: all), rounded down to a multiple of `parts`."""
    assert isinstance(dataset.train, Samples)
    n = min(samples or len(dataset.train), len(dataset.train)) // parts * parts
    return replace(dataset, train=Split(*dataset.train.slice(0, n)))


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
