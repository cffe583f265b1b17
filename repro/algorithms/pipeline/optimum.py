"""The dynamic programme of PipeDream section 3.2, and the number of its optimal partitions.

A partition is a path in a graph. At node (k, m) the layers before cut k (in a chain, the first k layers) are on m
machines. An edge from (k, m) to (l + 1, m + r) is the stage between the cuts k and l + 1 (in a chain, the layers k to
l) with r replicas. Tables of stages are (N, N, M), indexed [k, l, r - 1], with `inf` where no stage exists. All
machines are used, as in the paper's A(N, M).
"""

from __future__ import annotations

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
