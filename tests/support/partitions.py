"""Every partition of a short chain, and what each one takes: written out from the formulas, sharing nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

Layer = tuple[int, int, int]  # seconds, activation bytes, parameter bytes
Path = tuple[tuple[int, int], ...]  # of each stage: last layer, replicas

SAME = Fraction(1, 10**9)


class Best(NamedTuple):
    seconds: Fraction
    optima: int
    path: Path
    stage_seconds: tuple[Fraction, ...]


def paths(layers: int, machines: int, straight: bool, first: int = 0) -> Iterator[Path]:
    """Every way to put all layers from `first` on so many machines, all of them."""
    if layers == first:
        if machines == 0:
            yield ()
        return
    for last in range(first, layers):
        for replicas in range(1, min(machines, 1 if straight else machines) + 1):
            for rest in paths(layers, machines - replicas, straight, last + 1):
                yield ((last, replicas), *rest)


def stage(model: str, computation: Fraction, parameters: int, replicas: int, bandwidth: int) -> Fraction:
    synchronisation = Fraction(4 * (replicas - 1) * parameters, replicas * bandwidth)
    if model == "released-sum":
        return (computation + synchronisation) / replicas
    return max(computation, synchronisation) / replicas


def components(
    model: str, chain: Sequence[Layer], path: Path, bandwidth: int, activations: bool
) -> tuple[list[Fraction], list[Fraction]]:
    """Seconds of the stages, and of what crosses their borders."""
    stages, moved, first = [], [], 0
    for last, replicas in path:
        run = chain[first : last + 1]
        computation = Fraction(sum(layer[0] for layer in run))
        stages.append(stage(model, computation, sum(layer[2] for layer in run), replicas, bandwidth))
        if first and activations:
            inward, outward = chain[first - 1][1], chain[last][1]
            share = 1 if model == "paper" else replicas
            moved.append(Fraction(2 * inward, bandwidth * share))
            if model != "paper" and last < len(chain) - 1:
                moved.append(Fraction(2 * outward, bandwidth * share))
        first = last + 1
    return stages, moved


def best(
    model: str,
    chain: Sequence[Layer],
    machines: int,
    bandwidth: int,
    activations: bool = True,
    straight: bool = False,
    replicas: Sequence[int] | None = None,
) -> Best | None:
    """The least time, how many take it, and the one of them to take; None where no partition exists."""
    found = []
    for path in paths(len(chain), machines, straight):
        if replicas and [count for _, count in path] != list(replicas):
            continue
        stages, moved = components(model, chain, path, bandwidth, activations)
        found.append((max([*stages, *moved]), path, tuple(stages)))
    return pick(found)


def pick(found: list[tuple[Fraction, Path, tuple[Fraction, ...]]]) -> Best | None:
    if not found:
        return None
    least = min(seconds for seconds, *_ in found)
    optimal = [(path, stages) for seconds, path, stages in found if seconds <= least * (1 + SAME)]
    path, stages = min(optimal, key=lambda one: (len(one[0]), max(one[1]) - min(one[1]), one[0]))
    return Best(least, len(optimal), path, stages)
