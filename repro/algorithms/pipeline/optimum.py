"""The dynamic programme of PipeDream section 3.2, the number of its optimal partitions, and the choice between them.

A partition is a path in a graph. At node (k, m) the layers before cut k (in a chain, the first k layers) are on m
machines. An edge from (k, m) to (l + 1, m + r) is the stage between the cuts k and l + 1 (in a chain, the layers k to
l) with r replicas. Tables of stages are (N, N, M), indexed [k, l, r - 1], with `inf` where no stage exists. All
machines are used, as in the paper's A(N, M).

Balance is the difference between the slowest and the fastest stage. The lexicographic order compares stage by stage
(last layer or number of the cut behind the stage, then replicas), so the result is deterministic; the authors' code
takes the first in set order. Graph, tables and `allowed` are as in `repro.algorithms.pipeline.optimum`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

TOLERANCE = 1e-9  # relative difference below which partitions are equally good


def least_totals(table: np.ndarray, allowed: np.ndarray, combine: np.ufunc = np.maximum) -> np.ndarray:
    """A(k, m), (N + 1, M + 1): the least total over partitions of the first k layers on m machines; inf if none exists.

    combine  a partition's stages: np.maximum for the slowest, np.add for the sum
    allowed  (M + 1, M), [m, r - 1]: whether a stage may have r replicas if the stages before it use m machines
    """
    layers, _, machines = table.shape
    # columns before `machines` stand for negative numbers of machines
    padded = np.full((layers + 1, 2 * machines + 1), np.inf)
    totals = padded[:, machines:]
    totals[0, 0] = 0.0
    # before[k, r - 1, m] is a view of totals[k, m - r]
    windows = np.lib.stride_tricks.sliding_window_view(padded, machines + 1, axis=1)
    before = windows[:, machines - 1 :: -1]
    barred = np.where(_by_target(allowed), 0.0, np.inf)
    for last in range(layers):
        through = combine(before[: last + 1], table[: last + 1, last, :, None]) + barred
        totals[last + 1] = through.min(axis=(0, 1))
    return totals


def on_paths(good: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """(N, N, M): the good stages that occur in a partition of all layers on all machines into good stages."""
    table = np.where(good, 0.0, np.inf)
    begun = np.isfinite(least_totals(table, allowed))
    ended = np.isfinite(least_totals(reverse_table(table), reverse_allowed(allowed))[::-1, ::-1])
    used = np.zeros_like(good)
    for replicas in range(1, good.shape[2] + 1):
        before = begun[:-1, : begun.shape[1] - replicas] & allowed[: begun.shape[1] - replicas, replicas - 1]
        joined = before.astype(np.int32) @ ended[1:, replicas:].astype(np.int32).T  # [k, l]: over the machines before
        used[:, :, replicas - 1] = good[:, :, replicas - 1] & (joined > 0)
    return used


def any_replicas(machines: int) -> np.ndarray:
    """`allowed` without restriction."""
    return np.ones((machines + 1, machines), bool)


def allow_unreplicated(machines: int) -> np.ndarray:
    """`allowed` for straight pipelines."""
    allowed = np.zeros((machines + 1, machines), bool)
    allowed[:, 0] = True
    return allowed


def allow_replicas(replicas: tuple[int, ...]) -> np.ndarray:
    """`allowed` for exactly these replicas of the stages, first to last."""
    machines, used = sum(replicas), 0
    allowed = np.zeros((machines + 1, machines), bool)
    for count in replicas:
        allowed[used, count - 1] = True
        used += count
    return allowed


def reverse_table(table: np.ndarray) -> np.ndarray:
    """The table of the chain with its layers in reverse order."""
    return table[::-1, ::-1].swapaxes(0, 1)


def reverse_allowed(allowed: np.ndarray) -> np.ndarray:
    """`allowed` of the reversed chain: [m, r - 1], with m machines behind the stage."""
    return _by_target(allowed).T[::-1]


def _by_target(allowed: np.ndarray) -> np.ndarray:
    """(M, M + 1): [r - 1, m], whether a stage may have r replicas if m machines are used up to and with it."""
    machines = allowed.shape[1]
    target = np.arange(machines + 1)[None, :] - np.arange(1, machines + 1)[:, None]
    return (target >= 0) & allowed[target, np.arange(machines)[:, None]]


def count_partitions(good: np.ndarray, allowed: np.ndarray, ways: np.ndarray | None = None) -> int:
    """The exact number of partitions of all layers on all machines into good stages.

    good (N, N, M): whether a stage is good. ways (N, N): the number of ways in which the machines of a group can share
    the layers of a stage, as Python integers; None: one.
    """
    layers, _, machines = good.shape
    largest = 1 if ways is None else int(ways.max())
    # one Python integer holds the counts for all numbers of machines, in lanes of `lane` bits
    lane = layers + machines + min(layers, machines) * largest.bit_length()
    full, sources = (1 << lane) - 1, []
    for r in range(machines):
        before = np.flatnonzero(allowed[: machines - r, r]).tolist()
        sources.append(sum(full << lane * m for m in before))
    rows = [1] + [0] * layers
    for last in range(layers):
        for r in range(machines):
            firsts = np.flatnonzero(good[: last + 1, last, r]).tolist()
            row = sum(rows[k] if ways is None else rows[k] * ways[k, last] for k in firsts)
            rows[last + 1] += (row & sources[r]) << lane * (r + 1)
    return rows[layers] >> lane * machines


Stage = tuple[int, int]  # last layer, replicas


def choose_stages(good: np.ndarray, seconds: np.ndarray, allowed: np.ndarray, limit: float) -> list[Stage]:
    """The chosen partition into good stages (N, N, M); at least one exists.

    seconds  (N, N, M): of the stages
    limit    seconds of the partition's slowest component, the scale for equality of seconds
    """
    graph = Graph.of(good, seconds, allowed)
    close = TOLERANCE * limit
    points, best = [], np.inf
    fastest_slowest, cap = graph.least_slowest(-np.inf), np.inf
    # follow the Pareto front of slowest and fastest stage
    while (fastest := graph.greatest_fastest(cap)) is not None and fastest_slowest - fastest <= best + close:
        slowest = graph.least_slowest(fastest)
        points.append((fastest, slowest))
        best = min(best, slowest - fastest)
        cap = np.nextafter(slowest - close, -np.inf)
    equal = [(low - close, high + close) for low, high in points if high - low <= best + close]
    return min(graph.first_path(low, high) for low, high in equal)


@dataclass(frozen=True)
class Graph:
    """The edges on paths with the fewest stages, sorted by target; node (k, m) has the number k (M + 1) + m.

    levels  the slice of edges for each stage of a path
    """

    source: np.ndarray
    target: np.ndarray
    replicas: np.ndarray
    seconds: np.ndarray
    levels: list[slice]
    machines: int
    nodes: int

    @classmethod
    def of(cls, good: np.ndarray, seconds: np.ndarray, allowed: np.ndarray) -> Graph:
        layers, _, machines = good.shape
        cost = np.where(good, 1.0, np.inf)
        reached = least_totals(cost, allowed, np.add)  # stages on the way to a node
        to_go = least_totals(reverse_table(cost), reverse_allowed(allowed), np.add)[::-1, ::-1]
        fewest = int(reached[layers, machines])
        first, last, r = np.nonzero(good)
        pieces = []
        for used in range(machines):
            with_it = used + r + 1
            fits = (with_it <= machines) & allowed[used, r]
            fits[fits] = reached[first[fits], used] + 1 + to_go[last[fits] + 1, with_it[fits]] == fewest
            at = np.flatnonzero(fits)
            rows = first[at] * (machines + 1) + used, (last[at] + 1) * (machines + 1) + with_it[at]
            pieces.append((*rows, r[at] + 1, seconds[first[at], last[at], r[at]], reached[first[at], used]))
        source, target, replicas, times, level = (np.concatenate(column) for column in zip(*pieces))
        order = np.lexsort((target, level))
        borders = np.searchsorted(level[order], np.arange(fewest + 1))
        levels = [slice(begin, end) for begin, end in pairwise(borders)]
        nodes = (layers + 1) * (machines + 1)
        return cls(source[order], target[order], replicas[order], times[order], levels, machines, nodes)

    def least_slowest(self, floor: float) -> float:
        """The minimum of the slowest stage over paths whose stages all take at least `floor` seconds."""
        weights = np.where(self.seconds >= floor, self.seconds, np.inf)
        return self._through(weights, np.maximum, np.minimum, (0.0, np.inf))

    def greatest_fastest(self, cap: float) -> float | None:
        """The maximum of the fastest stage over paths whose stages all take at most `cap` seconds; None: no path."""
        weights = np.where(self.seconds <= cap, self.seconds, -np.inf)
        fastest = self._through(weights, np.minimum, np.maximum, (np.inf, -np.inf))
        return None if fastest == -np.inf else fastest

    def _through(self, weights: np.ndarray, along: np.ufunc, among: np.ufunc, ends: tuple[float, float]) -> float:
        """Combine edges by `along`, and paths to the last node by `among`; ends: values of an empty path, of none."""
        values = np.full(self.nodes, ends[1])
        values[0] = ends[0]
        for level in self.levels:
            target = self.target[level]
            starts = np.flatnonzero(np.append(True, target[1:] != target[:-1]))
            values[target[starts]] = among.reduceat(along(values[self.source[level]], weights[level]), starts)
        return float(values[-1])

    def first_path(self, low: float, high: float) -> list[Stage]:
        """The lexicographically first path whose stages all take between `low` and `high` seconds."""
        inside = (self.seconds >= low) & (self.seconds <= high)
        leads = np.zeros(self.nodes, bool)
        leads[-1] = True
        for level in reversed(self.levels):
            leads[self.source[level][inside[level] & leads[self.target[level]]]] = True
        path, node = [], 0
        for level in self.levels:
            fits = (self.source[level] == node) & inside[level] & leads[self.target[level]]
            at = int(np.flatnonzero(fits)[0])  # edges are sorted by target: layer, then machines
            node = int(self.target[level][at])
            path.append((node // (self.machines + 1) - 1, int(self.replicas[level][at])))
        return path
