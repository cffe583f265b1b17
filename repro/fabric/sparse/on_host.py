"""Sparse gradients on a CPU, in NumPy: membership, the largest magnitudes, and merging (gTop-k, Definition 1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

CHUNK = 1 << 18  # elements processed together, which fit the cache
MANY = 1 << 14  # magnitudes whose threshold is bracketed by a sample of every `EVERY`-th
EVERY = 16
SURE = 4.0  # standard deviations of the bracket on either side
Part = tuple[np.ndarray, np.ndarray]  # (values (k,) float32, indices (k,) int32), as `Sparse`


def stable_order(indices: np.ndarray) -> np.ndarray:
    """The stable ascending order (n,); the sort merges runs that are in order already."""
    return np.argsort(indices, kind="stable")


def is_among(mine: np.ndarray, others: np.ndarray, empty: int) -> np.ndarray:
    """Which of the indices are among the others: (n,) bool. Except for `empty`, the indices of each array are distinct.

    Sorting both together and comparing neighbours takes a third of the time of binary searches.
    """
    both = np.concatenate([others, mine])
    places = stable_order(both)
    both = np.take(both, places)
    member = np.zeros(len(both), dtype=bool)
    member[places[1:][both[1:] == both[:-1]]] = True
    member = member[len(others) :]
    member[mine == empty] = empty in others
    return member


def indices_above(vector: np.ndarray, bound: np.ndarray, equal: bool) -> np.ndarray:
    """The indices, ascending, of a vector's (n,) magnitudes above the bound, or also `equal` to it; NaN is above."""
    under = np.less if equal else np.less_equal
    indices = []
    # one scratch array for all chunks, so that the results do not fragment the heap
    sizes = np.empty(min(CHUNK, len(vector)), dtype=vector.dtype)
    small = np.empty(len(sizes), dtype=bool)
    with np.errstate(invalid="ignore"):
        for start in range(0, len(vector), CHUNK):
            chunk = vector[start : start + CHUNK]
            size, here = sizes[: len(chunk)], small[: len(chunk)]
            under(np.abs(chunk, out=size), bound, out=here)
            places = np.flatnonzero(np.logical_not(here, out=here))
            places += start
            indices.append(places)
    return np.concatenate(indices)


def largest_of(indices: np.ndarray, vector: np.ndarray, k: int) -> np.ndarray:
    """The k of these indices, ascending, with the largest magnitudes in a vector; NaN is the largest, ties by index."""
    return indices[largest_mask_on_host(nan_magnitudes_on_host(np.take(vector, indices)), k)]


def nan_magnitudes_on_host(vector: np.ndarray) -> np.ndarray:
    """|v|, with infinity for NaN."""
    sizes = np.abs(vector)
    sizes[np.isnan(sizes)] = np.inf
    return sizes


def kth_magnitude(vector: np.ndarray, k: int) -> np.ndarray:
    """The k-th largest magnitude of a vector (n,), NaN as infinity: ()."""
    place = len(vector) - k
    return np.partition(nan_magnitudes_on_host(vector), place)[place : place + 1].reshape(())


def largest_mask_on_host(magnitudes: np.ndarray, k: int) -> np.ndarray:
    """The k largest of the magnitudes (n,), which contain no NaN, as a mask (n,); ties by position."""
    threshold = kth_largest(magnitudes, k)
    mask = magnitudes > threshold
    if missing := k - int(np.count_nonzero(mask)):
        mask[np.flatnonzero(magnitudes == threshold)[:missing]] = True
    return mask


def kth_largest(magnitudes: np.ndarray, k: int) -> np.ndarray:
    """The k-th largest of the magnitudes (n,). Of many only those are ranked that a sample places near it."""
    place = len(magnitudes) - k
    if len(magnitudes) > MANY:
        sample = np.sort(magnitudes[::EVERY])
        expected = len(sample) * place / len(magnitudes)
        margin = SURE * (1 + expected**0.5)
        low = sample[max(0, int(expected - margin))]
        high = sample[min(len(sample) - 1, int(expected + margin))]
        above = magnitudes > high
        near = np.take(magnitudes, np.flatnonzero(above ^ (magnitudes >= low)))
        nth = len(near) - (k - int(np.count_nonzero(above)))
        if 0 <= nth < len(near):
            return np.partition(near, nth)[nth]
    return np.partition(magnitudes, place)[place]


def merge_topk_on_host(a: Part, b: Part, k: int, empty: int) -> tuple[Part, Callable[[], Part]]:
    """As `repro.fabric.sparse.gradients.merge_topk` (gTop-k's Definition 1). empty: the index of an unused place;
    negative indices are flags, which outweigh all values."""
    pairs = sorted_pairs(a, b)
    values, indices = pairs[:, 0].view(np.float32), pairs[:, 1]
    first = np.flatnonzero(indices[1:] == indices[:-1])
    second = first + 1
    with np.errstate(over="ignore"):  # `Sparse.check` reports it
        values[first] += values[second]
    values[second] = 0.0
    magnitudes = np.abs(values)
    magnitudes[: np.searchsorted(indices, 0)] = np.inf
    magnitudes[second] = -1.0
    indices[second] = empty
    kept = largest_mask_on_host(magnitudes, k)
    return selected_part(pairs, kept), lambda: selected_part(pairs, ~kept)


def sorted_pairs(a: Part, b: Part) -> np.ndarray:
    """The elements of both as (bits of the value, index), int32 (n, 2), by ascending index.

    A pair is sorted as one int64, whose upper half is the index on a little-endian machine. Without a sort's order, by
    which values and indices are then gathered, this takes three quarters of the time. The order of equal indices
    follows from their values; of two, the sum has the same bits in either order.
    """
    middle = len(a[1])
    pairs = np.empty((middle + len(b[1]), 2), np.int32)
    for part, rows in ((a, pairs[:middle]), (b, pairs[middle:])):
        rows[:, 0], rows[:, 1] = part[0].view(np.int32), part[1]
    pairs.view(np.int64)[:, 0].sort(kind="stable")  # merges runs that are in order already
    return pairs


def selected_part(pairs: np.ndarray, mask: np.ndarray) -> Part:
    """The elements of pairs (n, 2) where a mask (n,) is true."""
    chosen = np.take(pairs.view(np.int64), np.flatnonzero(mask)).view(np.int32).reshape(-1, 2)
    return chosen[:, 0].copy().view(np.float32), chosen[:, 1].copy()
