"""A convex objective over a training set, and its minimiser to high accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from repro.core.errors import FaultError
from repro.core.not_none import not_none
from repro.data.base import AnySplit, Dataset, Samples, Split
from repro.fabric.base import Fabric

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
