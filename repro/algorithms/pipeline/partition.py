"""PipeDream's partitioner (section 3.2): layers into stages, replicas of each, minibatches in flight.

`best_partition` minimises the slowest stage or transfer, on one network level or on two nested ones (groups of machines
with a faster network inside), under one of the cost models of `cost_models`. All machines are used, as in A(N, M) of
the paper. The layers may be a graph: a stage is the difference of two of its downsets (`downsets`), so it uses only
layers of its own and of stages before it.

Ties: `ties`, from the outer level inwards. `optima` counts the partitions whose time is within 1e-9 of the least; with
two levels those in which every group also has one of the best pipelines of its layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repro.algorithms.pipeline import optimum
from repro.algorithms.pipeline.cost_models import COMBINE, Costs, Layers, stage_costs, stage_seconds
from repro.algorithms.pipeline.downsets import Downsets
from repro.algorithms.pipeline.layers import MOST, Profile
from repro.algorithms.pipeline.layout import Layout, StageBlocks
from repro.algorithms.pipeline.optimum import choose_stages
from repro.core.errors import InputError, unknown_name
from repro.experiment import limits


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
    model: str, layers: Layers, machines: int, bandwidth: float, activations: bool, allowed: np.ndarray,
    counting: bool = True,
) -> tuple[list[Stage], float, int]:  # fmt: skip
    """(stages of the chosen pipeline, its seconds, number of optimal pipelines or 0), of all layers."""
    whole = layers.cuts(0, len(layers.activations))
    chain = Chain(stage_costs(model, layers, machines, bandwidth, activations), allowed, whole)
    return chain.stages(), chain.seconds, chain.optima() if counting else 0


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


@dataclass(frozen=True)
class Partition:
    """The stages, first to last.

    pipeline_s       seconds between two minibatches: the slowest stage or transfer
    data_parallel_s  seconds of a minibatch with all layers on every machine
    single_s         seconds of a minibatch on one machine
    optima           the number of equally good partitions; 0: not counted
    order            the profile's layers, stage after stage; `first` and `last` of a stage are places in it
    searched         describes the search: a chain, or a graph with all or some of its downsets
    """

    stages: tuple[Stage, ...]
    pipeline_s: float
    data_parallel_s: float
    single_s: float
    optima: int
    order: tuple[int, ...]
    searched: str

    @property
    def layout(self) -> Layout:
        """The stages without their times."""
        return Layout(tuple(StageBlocks(stage.first, stage.last, stage.replicas) for stage in self.stages))


def best_partition(
    profile: Profile,
    machines: Sequence[int],
    bandwidths: Sequence[float],
    cost_model: str = "paper",
    activations: bool = True,
    straight: bool = False,
    replicas: Sequence[int] | None = None,
    counting: bool = True,
) -> Partition:
    """The best partition; InputError for impossible arguments.

    machines     (M,), or (M1, M2): M2 groups of M1 machines
    bandwidths   (B,), or (B1, B2): bytes/s within a group, and between groups
    activations  whether to count the transfers of activations and their gradients
    straight     without replicas
    replicas     of the stages, first to last, if only the cuts are to be found; on one level
    counting     whether to count the optima of one level, which takes as long as to find one
    """
    machines, bandwidths = tuple(machines), tuple(bandwidths)
    if cost_model not in COMBINE:
        raise unknown_name("cost model", str(cost_model), COMBINE)
    check_network(machines, bandwidths)
    check_stages(len(profile.layers), machines, straight, replicas)
    cuts = Downsets.of(profile)
    compared = (len(cuts.members) - 1) ** 2 * max(machines)
    limits.check_limit("stages to compare (cuts x cuts x machines)", compared, limits.STAGES)
    if len(machines) == 2:
        inner = (len(cuts.members) - 1) ** 3 * machines[0] ** 2
        what = "stages to compare in a group of machines (cuts x cuts x cuts x machines of a group, squared)"
        limits.check_limit(what, inner, limits.STAGES_OF_GROUPS)
    layers = Layers.of(profile, cuts)
    permitted = optimum.allow_unreplicated if straight else optimum.any_replicas
    if len(machines) == 1:
        allowed = optimum.allow_replicas(tuple(replicas)) if replicas else permitted(machines[0])
        best = one_level(cost_model, layers, machines[0], bandwidths[0], activations, allowed, counting)
    else:
        both = permitted(machines[0]), permitted(machines[1])
        best = two_levels(cost_model, layers, machines, bandwidths, activations, both)
    between_cuts, seconds, optima = best
    data_parallel = data_parallel_seconds(cost_model, layers, machines, bandwidths)
    order: list[int] = []
    stages = []
    for stage in between_cuts:
        stage_cuts = cuts.between(stage.first, stage.last)
        stages.append(Stage(len(order), len(order) + len(stage_cuts) - 1, stage.replicas, stage.seconds))
        order += stage_cuts
    return Partition(tuple(stages), seconds, data_parallel, profile.seconds, optima, tuple(order), cuts.about(profile))


def data_parallel_seconds(
    model: str, layers: Layers, machines: tuple[int, ...], bandwidths: tuple[float, ...]
) -> float:
    """Seconds of a minibatch with all layers in one stage on all machines: T(1 -> N, M), nested for groups."""
    seconds, inside = layers.computation[0, -1], 1
    for count, bandwidth in zip(machines, bandwidths):
        seconds = stage_seconds(model, seconds, layers.parameters[0, -1], count, bandwidth, inside)
        inside = count
    return float(seconds)


def check_network(machines: Sequence[int], bandwidths: Sequence[float]) -> None:
    """InputError unless there are one or two levels, each with at least one machine and a positive bandwidth."""
    if len(machines) != len(bandwidths):
        raise InputError(
            f"machines={_listed(machines)} has {len(machines)} levels and bandwidth={_listed(bandwidths)} "
            f"{len(bandwidths)}: must have a bandwidth for each level"
        )
    if len(machines) not in (1, 2):
        raise InputError(f"machines={_listed(machines)}: must be N, or N1,N2 (N2 groups of N1 machines)")
    for count in machines:
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InputError(f"machines={_listed(machines)}: must be whole numbers, 1 or more")
    limits.check_limit("machines", math.prod(machines), limits.RANKS)
    for bandwidth in bandwidths:
        right = isinstance(bandwidth, int | float) and not isinstance(bandwidth, bool)
        if not right or not 1 / MOST <= bandwidth < math.inf:
            least = f"must be numbers above 0, {1 / MOST:g} or more"
            raise InputError(f"bandwidth={_listed(bandwidths)}: {least}, in bytes a second")


def check_stages(
    layers: int, machines: Sequence[int], straight: bool = False, replicas: Sequence[int] | None = None
) -> None:
    """InputError for more stages than layers, or replicas that do not fit the machines."""
    total = math.prod(machines)
    if replicas is not None:
        config = "-".join(map(str, replicas))
        if len(machines) > 1:
            raise InputError(f"config {config}: needs a network of one level, not machines of {len(machines)} levels")
        if not replicas or any(type(count) is not int or count < 1 for count in replicas) or sum(replicas) != total:
            raise InputError(f"config {config}: must be whole numbers, 1 or more, whose sum is the {total} machines")
        if straight and max(replicas) > 1:
            raise InputError(f"config {config}: the stages of a straight pipeline have one replica each")
    stages = len(replicas) if replicas else total if straight else 1
    if stages > layers:
        raise InputError(f"{stages} stages are more than the {layers} layers of the profile; must be {layers} or fewer")


def _listed(values: Sequence[float]) -> str:
    return ",".join(str(value) for value in values)
