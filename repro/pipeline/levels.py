"""The partitioner on one network level, and on two nested ones: groups of machines, and machines within a group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro.pipeline import optimum
from repro.pipeline.cost_models import Costs, Layers, costs, stage_seconds
from repro.pipeline.ties import choose


@dataclass(frozen=True)
class Stage:
    """Layers first to last (both included) on so many machines; seconds a minibatch under the cost model, of
    computation and synchronisation, which the replicas share."""

    first: int
    last: int
    replicas: int
    seconds: float


class Chain:
    """The pipelines of the layers start to stop - 1 on all machines of a level, and what the best of them need.

    good     (n, n, M): the stages that can be in one of the best, within `optimum.TOLERANCE`
    seconds  of the best: its slowest stage or transfer; inf where there is no pipeline
    """

    def __init__(self, costs: Costs, allowed: np.ndarray, start: int, stop: int):
        self.start, self.allowed = start, allowed
        self.stage_seconds, slowest = costs.chain(start, stop)
        self.seconds = float(optimum.least(slowest, allowed)[-1, -1])
        self.good = slowest <= self.seconds * (1 + optimum.TOLERANCE)

    def optima(self, ways: np.ndarray | None = None) -> int:
        """How many are the best; `ways`: as for `optimum.count`."""
        return optimum.count(self.good, self.allowed, ways)

    def stages(self) -> list[Stage]:
        """Those of the one that is taken."""
        found, first = [], 0
        for last, replicas in choose(self.good, self.stage_seconds, self.allowed, self.seconds):
            seconds = float(self.stage_seconds[first, last, replicas - 1])
            found.append(Stage(self.start + first, self.start + last, replicas, seconds))
            first = last + 1
        return found


def one_level(
    model: str, layers: Layers, machines: int, bandwidth: float, activations: bool, allowed: np.ndarray
) -> tuple[list[Stage], float, int]:
    """Stages, seconds and number of the best pipelines of all layers."""
    chain = Chain(costs(model, layers, machines, bandwidth, activations), allowed, 0, len(layers.activations))
    return chain.stages(), chain.seconds, chain.optima()


def two_levels(
    model: str,
    layers: Layers,
    machines: tuple[int, int],
    bandwidths: tuple[float, float],
    activations: bool,
    allowed: tuple[np.ndarray, np.ndarray],
) -> tuple[list[Stage], float, int]:
    """The same of pipelines of groups of machines, each with a pipeline of its own.

    A stage of the outer level is a run of layers on some groups, which share the minibatches; each group has the best
    pipeline of them, with all of its machines. Its stages are those returned, with as many replicas as all of the
    groups have, and the seconds of one of them on all.
    """
    inner = costs(model, layers, machines[0], bandwidths[0], activations)
    within = Layers(group_seconds(inner, allowed[0]), layers.parameters, layers.activations)
    outer = costs(model, within, machines[1], bandwidths[1], activations, inside=machines[0])
    chain = Chain(outer, allowed[1], 0, len(layers.activations))
    found = []
    for run in chain.stages():
        inside = 1 if run.first else machines[0]
        for stage in Chain(inner, allowed[0], run.first, run.last + 1).stages():
            given = stage.seconds, layers.parameters[stage.first, stage.last], run.replicas, bandwidths[1], inside
            seconds = float(stage_seconds(model, *given))
            found.append(Stage(stage.first, stage.last, stage.replicas * run.replicas, seconds))
    ways = np.zeros(layers.parameters.shape, object)
    for first, last in np.argwhere(optimum.on_paths(chain.good, chain.allowed).any(axis=2)).tolist():
        ways[first, last] = Chain(inner, allowed[0], first, last + 1).optima()
    return found, chain.seconds, chain.optima(ways)


def group_seconds(inner: Costs, allowed: np.ndarray) -> np.ndarray:
    """(N, N): seconds of the best pipeline of the layers i to j on all machines of a group; inf where there is none."""
    layers = len(inner.first)
    found = np.full((layers, layers), np.inf)
    for start in range(layers):
        _, slowest = inner.chain(start, layers)
        found[start, start:] = optimum.least(slowest, allowed)[1:, -1]
    return found
