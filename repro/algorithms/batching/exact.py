"""The optima of iBatch's problem by dynamic programming, as a reference for its greedy algorithms.

`best_batches` minimises the executed time; `exact_exetime` solves the paper's problem, Equation (4) under constraint
(5). Layers without parameters stay with the layer before; those at the front are batch 0.
"""

from __future__ import annotations

import numpy as np

from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.ticks import join_groups, split_groups
from repro.algorithms.batching.times import Batches, check_batches, executed_s, executed_ticks

NONE = 2**62  # above the sum of all times, without overflow of int64 in sums


def best_batches(profile: PullProfile) -> Batches:
    """The partition of the layers, also into a single batch, with the least executed time.

    F(j, k), the time when the first j layers end in k batches, is the min over i of
    max(F(i, k - 1), k T_s + T(1..j)) + C(i+1..j). After batch 0 of l layers F(l, 0) = C(1..l). Ties: the fewest
    batches, then, from the last cut to the first, the earliest cut. O(L^3).
    """
    ticks, groups = join_groups(profile)
    layers, leading = ticks.layers, ticks.leading
    pulled, computed = np.array(ticks.pulled), np.array(ticks.computed)
    forward = computed[None, :] - computed[:, None]  # [i, j]: C(i+1..j)
    before = np.arange(layers + 1)[:, None] < np.arange(layers + 1)[None, :]  # [i, j]: i < j
    ends = np.full(layers + 1, NONE)
    ends[leading] = computed[leading]
    least, cuts, tables = ends[layers], 0, []
    for k in range(1, layers + 1):
        paths = np.where(before, np.maximum(ends[:, None], k * ticks.startup + pulled[None, :]) + forward, NONE)
        paths = np.where(ends[:, None] < NONE, paths, NONE)
        tables.append(paths.argmin(axis=0))  # the first minimum: the earliest cut
        ends = paths.min(axis=0)
        if ends[layers] < least:
            least, cuts = ends[layers], k
    path = [layers]
    for table in reversed(tables[:cuts]):
        path.append(int(table[path[-1]]))
    return split_groups(path[::-1], groups)


def exact_exetime(profile: PullProfile) -> Batches | None:
    """The batches with the least EXETime (4) of those that meet constraint (5); None if none do.

    At least two batches are pulled, as in the paper. Ties: the fewest batches, then the shortest last batch.

    D(i, j) is the least number of batches of layers 1..j that meet (5) and end with i+1..j. EXETime is
    D(i, L) T_s + T(1..L) + C(i+1..L), and D(j, m) = 1 + the least D(i, j) with C(i+1..j) <= T_s + T(j+1..m). After
    batch 0 of l layers, D(l, m) = 1 if C(1..l) <= T_s + T(l+1..m).
    """
    ticks, groups = join_groups(profile)
    layers, leading = ticks.layers, ticks.leading
    computed = np.array(ticks.computed)
    pulls = ticks.startup + np.array(ticks.pulled)
    counts = np.full((layers + 1, layers + 1), NONE)
    counts[leading, leading + 1 :] = np.where(computed[leading] <= pulls[leading + 1 :], 1, NONE)
    froms = np.zeros((layers + 1, layers + 1), int)
    for j in range(leading + 1, layers):
        forwards = computed[j] - computed[:j]  # [i]: C(i+1..j)
        comm = pulls[j + 1 :] - ticks.pulled[j]  # [m]: T_s + T(j+1..m)
        allowed = np.where(forwards[:, None] <= comm[None, :], counts[:j, j][:, None], NONE)
        froms[j, j + 1 :] = allowed.argmin(axis=0)
        counts[j, j + 1 :] = np.minimum(allowed.min(axis=0) + 1, NONE)
    best = None
    for i in range(leading + 1, layers):
        if counts[i, layers] < NONE:
            count = int(counts[i, layers])
            rank = count * ticks.startup + ticks.forward(i + 1, layers), count, -i
            best = min(best, (rank, i)) if best else (rank, i)
    if best is None:
        return None
    path, i = [layers], best[1]
    while i > leading:
        path.append(i)
        i = int(froms[i, path[-2]])
    return split_groups([leading, *path[::-1]], groups)


def exact_s(profile: PullProfile) -> float:
    """The least executed time in seconds."""
    return executed_s(profile, best_batches(profile))


def optimality_gap(profile: PullProfile, batches: Batches) -> float:
    """By which fraction batches take longer than the least executed time; at least 0."""
    ticks = check_batches(profile, batches)
    least = executed_ticks(ticks, best_batches(profile))
    return executed_ticks(ticks, batches) / least - 1 if least else 0.0
