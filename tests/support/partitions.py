"""Brute force over all partitions of a small graph of layers, in exact arithmetic, from the formulas alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

Layers = Sequence[tuple[int, int, int]]  # seconds, activation bytes, parameter bytes
Graph = tuple[Layers, Sequence[tuple[int, int]]]  # layers, edges
Downset = frozenset[int]
Pipeline = tuple[tuple[Downset, Downset, int], ...]  # a stage: downsets before and with it, replicas

SAME = Fraction(1, 10**9)  # relative difference of equally good partitions


class Best(NamedTuple):
    """The least time, the partitions that take it, and the one to choose with its stages' seconds."""

    seconds: Fraction
    pipelines: list[Pipeline]
    chosen: Pipeline
    stage_seconds: list[Fraction]


def all_downsets(graph: Graph) -> list[Downset]:
    """Smallest first."""
    layers, edges = graph
    subsets = (frozenset(some) for size in range(len(layers) + 1) for some in combinations(range(len(layers)), size))
    return [one for one in subsets if all(source in one for source, user in edges if user in one)]


def pipelines(downs: list[Downset], before: Downset, end: Downset, machines: int, straight: bool) -> Iterator[Pipeline]:
    """Every partition of the layers between two downsets on so many machines, all of them."""
    if before == end and machines == 0:
        yield ()
    for behind in downs:
        if before < behind <= end:
            for replicas in range(1, min(machines, 1 if straight else machines) + 1):
                for rest in pipelines(downs, behind, end, machines - replicas, straight):
                    yield ((before, behind, replicas), *rest)


def leaving(graph: Graph, inside: Downset) -> int:
    """Bytes of the outputs of these layers that other layers use."""
    layers, edges = graph
    return summed(layers, {source for source, user in edges if source in inside and user not in inside}, 1)


def summed(layers: Layers, chosen: Iterator[int] | set[int] | Downset, what: int) -> int:
    return sum(layers[layer][what] for layer in chosen)


def stage(model: str, computation: Fraction, parameters: Fraction | int, replicas: int, bandwidth: int) -> Fraction:
    synchronisation = Fraction(4 * (replicas - 1) * parameters, replicas * bandwidth)
    if model == "released-sum":
        return (computation + synchronisation) / replicas
    return max(computation, synchronisation) / replicas


def stages(model: str, graph: Graph, pipeline: Pipeline, bandwidth: int) -> list[Fraction]:
    """Seconds of the stages."""
    layers, _ = graph
    found = []
    for before, behind, replicas in pipeline:
        own = behind - before
        found.append(stage(model, Fraction(summed(layers, own, 0)), summed(layers, own, 2), replicas, bandwidth))
    return found


def moved(model: str, graph: Graph, pipeline: Pipeline, bandwidth: int) -> list[Fraction]:
    """Seconds of the bytes that cross the borders of the stages."""
    found = []
    for before, behind, replicas in pipeline[1:]:
        share = 1 if model == "paper" else replicas
        found.append(Fraction(2 * leaving(graph, before), bandwidth * share))
        if model != "paper":
            found.append(Fraction(2 * leaving(graph, behind), bandwidth * share))
    return found


def best(
    model: str, graph: Graph, machines: int, bandwidth: int, activations: bool = True, straight: bool = False,
    replicas: Sequence[int] | None = None, start: Downset = frozenset(), end: Downset | None = None,
) -> Best | None:  # fmt: skip
    """Of all partitions between two downsets, by default of all layers; None if none exists."""
    downs = all_downsets(graph)
    found = []
    for pipeline in pipelines(downs, start, downs[-1] if end is None else end, machines, straight):
        if not replicas or [count for *_, count in pipeline] == list(replicas):
            seconds = stages(model, graph, pipeline, bandwidth)
            crossing = moved(model, graph, pipeline, bandwidth) if activations else []
            found.append((max([*seconds, *crossing]), pipeline, seconds))
    if not found:
        return None
    least = min(time for time, *_ in found)
    optimal = [(pipeline, seconds) for time, pipeline, seconds in found if time <= least * (1 + SAME)]
    chosen, seconds = min(optimal, key=lambda one: (len(one[0]), max(one[1]) - min(one[1]), path(one[0])))
    return Best(least, [pipeline for pipeline, _ in optimal], chosen, seconds)


def path(pipeline: Pipeline) -> tuple[tuple[int, int], ...]:
    """(last layer, replicas) of each stage of a chain."""
    return tuple((len(behind) - 1, replicas) for _, behind, replicas in pipeline)
