"""The partitioner on one network level, or on two: machines in groups, and groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro.algorithms.pipeline import optimum
from repro.algorithms.pipeline.cost_models import Costs, Layers, stage_costs, stage_seconds
from repro.algorithms.pipeline.ties import choose_stages


@dataclass(frozen=True)
class Stage:
    """The part of the graph between the cuts first and last + 1 (in a chain the layers first to last), on `replicas`
    machines. seconds: of a minibatch by the cost model, computation and synchronisation, divided by the replicas."""

    first: int
    last: int
    replicas: int
    seconds: float


class Chain:
    """The pipelines from the first to the last of n + 1 cuts that use all machines of a level.

    good     (n, n, M): the stages of optimal pipelines, within `optimum.TOLERANCE`
    seconds  of the optimum: its slowest stage or transfer; inf if there is no pipeline
    """

    def __init__(self, costs: Costs, allowed: np.ndarray, cuts: np.ndarray):
        self.cuts, self.allowed = cuts.tolist(), allowed
        self.stage_seconds, slowest = costs.between(cuts)
        self.seconds = float(optimum.least_totals(slowest, allowed)[-1, -1])
        self.good = slowest <= self.seconds * (1 + optimum.TOLERANCE)

    def optima(self, ways: np.ndarray | None = None) -> int:
        """The number of optimal pipelines; `ways` as in `optimum.count_partitions`."""
        return optimum.count_partitions(self.good, self.allowed, ways)

    def stages(self) -> list[Stage]:
        """The stages of the chosen pipeline."""
        stages, first = [], 0
        for last, replicas in choose_stages(self.good, self.stage_seconds, self.allowed, self.seconds):
            seconds = float(self.stage_seconds[first, last, replicas - 1])
            stages.append(Stage(self.cuts[first], self.cuts[last + 1] - 1, replicas, seconds))
            first = last + 1
        return stages


def one_level(
    model: str, layers: Layers, machines: int, bandwidth: float, activations: bool, allowed: np.ndarray
) -> tuple[list[Stage], float, int]:
    """(stages of the chosen pipeline, its seconds, number of optimal pipelines), of all layers."""
    whole = layers.cuts(0, len(layers.activations))
    chain = Chain(stage_costs(model, layers, machines, bandwidth, activations), allowed, whole)
    return chain.stages(), chain.seconds, chain.optima()


def two_levels(
    model: str, layers: Layers, machines: tuple[int, ...], bandwidths: tuple[float, ...], activations: bool,
    allowed: tuple[np.ndarray, np.ndarray],
) -> tuple[list[Stage], float, int]:  # fmt: skip
    """As `one_level`, for groups of machines.

    The groups of an outer stage share its minibatches, and each group runs the best pipeline of the stage's layers on
    its machines. The result has the stages of these inner pipelines, with the replicas of all groups together.
    """
    inner = stage_costs(model, layers, machines[0], bandwidths[0], activations)
    within = Layers(group_seconds(layers, inner, allowed[0]), layers.parameters, layers.activations)
    outer = stage_costs(model, within, machines[1], bandwidths[1], activations, inside=machines[0])
    chain = Chain(outer, allowed[1], layers.cuts(0, len(layers.activations)))
    stages = []
    for run in chain.stages():
        inside = 1 if run.first else machines[0]
        for stage in Chain(inner, allowed[0], layers.cuts(run.first, run.last + 1)).stages():
            terms = stage.seconds, layers.parameters[stage.first, stage.last], run.replicas, bandwidths[1], inside
            seconds = float(stage_seconds(model, *terms))
            stages.append(Stage(stage.first, stage.last, stage.replicas * run.replicas, seconds))
    ways = np.zeros(layers.parameters.shape, object)
    for first, last in np.argwhere(optimum.on_paths(chain.good, chain.allowed).any(axis=2)).tolist():
        ways[first, last] = Chain(inner, allowed[0], layers.cuts(first, last + 1)).optima()
    return stages, chain.seconds, chain.optima(ways)


def group_seconds(layers: Layers, inner: Costs, allowed: np.ndarray) -> np.ndarray:
    """(N, N): seconds of the best pipeline from cut i to cut j + 1 on all machines of a group; inf if none exists."""
    count = len(layers.activations)
    seconds = np.full((count, count), np.inf)
    for start in range(count):
        cuts = layers.cuts(start, count)
        _, slowest = inner.between(cuts)
        seconds[start, cuts[1:] - 1] = optimum.least_totals(slowest, allowed)[1:, -1]
    return seconds
