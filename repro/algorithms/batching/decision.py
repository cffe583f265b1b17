"""iBatch's decision: its Algorithms 1 and 2 line by line, the optima by dynamic programming, and the modes by name.

`best_batches` minimises the executed time; `exact_exetime` solves the paper's problem, Equation (4) under constraint
(5). Layers without parameters stay with the layer before; those at the front are batch 0.

Our decisions where the paper is ambiguous:

- *The pairs in S1* are all with 1 <= l_1 < l_2 <= L, and 0 <= l_{N-2} < l_{N-1} < L. So two batches are allowed
  (l_2 = L, l_{N-2} = 0); the repeat loop tests its end first and then does nothing.
- *No pair meets (5)*, or no l_x meets line 10: the one with the least computation that its communication does not
  cover. In Algorithm 1 that is [1], [2, L], or one last batch of all remaining layers; in Algorithm 2 a batch of a
  single layer. If S2 is empty, the result has the least possible executed time, T_s + T_t^1 + all C.
- *Line 5 of Algorithm 1 does not determine l_2*: all pairs with the same l_1 have the same value. The value that line
  11 minimises, T_s + T_t(l_1+1..l_2) - C(1..l_1), decides: the smallest l_2. In Algorithm 2 it decides ties of lines 4
  and 5.
- *Line 5 of Algorithm 2* is printed as the sum of C over L_{N-1} <= i <= L; we use "the computation time in the last
  batch", EXE_3, which starts at l_{N-1} + 1. Both sums are least for the largest l_{N-1}.
- *Ties of line 11* (layers that take no time): the largest batch, so the fewest batches.
- *A network of one layer*, or with parameters in only one: one batch. With two, [1], [2]: the algorithms always cut. So
  greedy may be worse than the default, if T_s exceeds the overlap.
- *Layers without parameters at the front*, which the paper does not have, are batch 0. The algorithms run as printed on
  the layers after it. (Adding its computation to the first of these layers is about twice as far from `exact`.)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from repro.algorithms.batching.profile import PullProfile, layer_groups
from repro.algorithms.batching.times import (
    Batches,
    Ticks,
    check_batches,
    executed_s,
    executed_ticks,
    exetime_ticks,
    join_groups,
    split_groups,
)
from repro.core.errors import unknown_name

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


def algorithm1(profile: PullProfile) -> Batches:
    """Algorithm 1: l_i from l_1 to l_N."""
    return _decided(profile, algorithm1_ends)


def algorithm2(profile: PullProfile) -> Batches:
    """Algorithm 2: l_i from l_{N-1} to l_1."""
    return _decided(profile, algorithm2_ends)


def greedy_batches(profile: PullProfile) -> Batches:
    """The better of Algorithms 1 and 2: "the one with the minimal execution time", the paper's EXETime of Equation (4).

    Ties: Algorithm 1's. If the result violates constraint (5), it may have the longer executed time, because EXETime
    may omit computation that no communication covers.
    """

    def better(ticks: Ticks) -> list[int]:
        return min(algorithm1_ends(ticks), algorithm2_ends(ticks), key=lambda ends: exetime_ticks(ticks, _pairs(ends)))

    return _decided(profile, better)


def algorithm1_ends(ticks: Ticks) -> list[int]:
    """Algorithm 1 on layers that all have parameters: [l_0 = 0, l_1, ..., l_N = L]."""
    L = ticks.layers
    if L == 1:
        return [0, 1]
    # 1: The first step
    # 2: all pairs of [l_1, l_2]
    S1 = [(l_1, l_2) for l_1 in range(1, L) for l_2 in range(l_1 + 1, L + 1)]
    # 3: the pairs that meet Eq. 5, or come nearest to it
    differences = {(l_1, l_2): ticks.pull(l_1 + 1, l_2) - ticks.forward(1, l_1) for l_1, l_2 in S1}
    S2 = _nearest(S1, differences)
    # 4: the pairs with the maximum sum of C over 1 <= i <= l_1
    most = max(ticks.forward(1, l_1) for l_1, _ in S2)
    selected = [(l_1, l_2) for l_1, l_2 in S2 if ticks.forward(1, l_1) == most]
    # 5: the one with the minimum T_s + sum of T_t over 1 <= i <= l_1; then, as in line 11, the least difference
    l_1, l_2 = min(selected, key=lambda pair: (ticks.pull(1, pair[0]), differences[pair]))
    chosen = [0, l_1, l_2]
    # 6: The rest steps
    # 7: previous two layers in batches
    l_k1, l_k2 = l_2, l_1  # l_{k-1} and l_{k-2}
    # 8 and 14: repeat until l_{k-1} = L
    while l_k1 != L:
        # 9: current layer l_k
        # 10: from [l_{k-1} + 1, L], all l_x whose communication covers the computation of the batch before
        covered = ticks.forward(l_k2 + 1, l_k1)
        difference = {l_x: ticks.pull(l_k1 + 1, l_x) - covered for l_x in range(l_k1 + 1, L + 1)}
        # 11: the one with the minimum difference; ties: the largest
        l_k = min(_nearest(list(difference), difference), key=lambda l_x: (difference[l_x], -l_x))
        chosen.append(l_k)
        l_k2 = l_k1  # 12
        l_k1 = l_k  # 13
    return chosen


def algorithm2_ends(ticks: Ticks) -> list[int]:
    """Algorithm 2 on layers that all have parameters: [l_0 = 0, l_1, ..., l_N = L]."""
    L = ticks.layers
    if L == 1:
        return [0, 1]
    # 1: The first step
    # 2: all pairs of [l_{N-1}, l_{N-2}]
    S1 = [(l_N1, l_N2) for l_N1 in range(1, L) for l_N2 in range(l_N1)]
    # 3: the pairs that meet Eq. 5, or come nearest to it
    differences = {(l_N1, l_N2): ticks.pull(l_N1 + 1, L) - ticks.forward(l_N2 + 1, l_N1) for l_N1, l_N2 in S1}
    S2 = _nearest(S1, differences)
    # 4: the pairs with the maximum sum of C over l_{N-2} + 1 <= i <= l_{N-1}
    most = max(ticks.forward(l_N2 + 1, l_N1) for l_N1, l_N2 in S2)
    selected = [(l_N1, l_N2) for l_N1, l_N2 in S2 if ticks.forward(l_N2 + 1, l_N1) == most]
    # 5: the one with the minimum sum of C in the last batch; then, as in line 11, the least difference, the largest
    l_N1, l_N2 = min(selected, key=lambda pair: (ticks.forward(pair[0] + 1, L), differences[pair], pair[1]))
    chosen = [L, l_N1, l_N2]
    # 6: The rest steps
    # 7: next two layers in batches
    l_k1, l_k2 = l_N2, l_N1  # l_{k+1} and l_{k+2}
    # 8 and 14: repeat until l_{k+1} = 0
    while l_k1 != 0:
        # 9: current layer l_k
        # 10: from [0, l_{k+1} - 1], all l_x whose computation is covered by the communication of the next batch
        covering = ticks.pull(l_k1 + 1, l_k2)
        difference = {l_x: covering - ticks.forward(l_x + 1, l_k1) for l_x in range(l_k1)}
        # 11: the one with the minimum difference; ties: the largest batch
        l_k = min(_nearest(list(difference), difference), key=lambda l_x: (difference[l_x], l_x))
        chosen.append(l_k)
        l_k2 = l_k1  # 12
        l_k1 = l_k  # 13
    return chosen[::-1]


def _nearest(candidates: list, differences: dict) -> list:
    """Candidates whose communication minus computation is at least 0; if none, those with the largest difference."""
    limit = min(0, max(differences.values()))
    return [candidate for candidate in candidates if differences[candidate] >= limit]


def _pairs(ends: list[int]) -> Batches:
    return tuple((start + 1, end) for start, end in pairwise(ends))


def _decided(profile: PullProfile, algorithm: Callable[[Ticks], list[int]]) -> Batches:
    """Batch 0 followed by an algorithm's batches, in original layers."""
    ticks, groups = join_groups(profile)
    behind = ticks.behind_leading()
    ends = algorithm(behind) if behind.layers else [0]
    return split_groups([ticks.leading + end for end in ends], groups)


def single_batch(profile: PullProfile) -> Batches:
    """One pull of all layers before the computation (Figure 4(a))."""
    return ((1, len(profile.transfer_s)),)


def layer_batches(profile: PullProfile) -> Batches:
    """A pull for each layer with parameters (Figure 4(b)); the others join the layer before, or are batch 0."""
    return tuple(layer_groups(profile))


_DECISIONS: dict[str, Callable[[PullProfile], Batches]] = {
    "default": single_batch,
    "layerwise": layer_batches,
    "algorithm1": algorithm1,
    "algorithm2": algorithm2,
    "greedy": greedy_batches,
    "exact": best_batches,
}
MODES = tuple(_DECISIONS)


def decide_batches(profile: PullProfile, mode: str) -> Batches:
    """The batches of a mode, a partition of layers 1 to L; InputError for an unknown mode."""
    if mode not in _DECISIONS:
        raise unknown_name("mode", mode, MODES)
    return _DECISIONS[mode](profile)
