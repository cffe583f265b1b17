"""The choice between optimal partitions: fewest stages, then best balance, then lexicographic order.

Balance is the difference between the slowest and the fastest stage. The lexicographic order compares stage by stage
(last layer or number of the cut behind the stage, then replicas), so the result is deterministic; the authors' code
takes the first in set order. Graph, tables and `allowed` are as in `repro.algorithms.pipeline.optimum`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from repro.algorithms.pipeline.optimum import TOLERANCE, least_totals, reverse_allowed, reverse_table

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
