"""The top-k operation in host memory, by NumPy: a quarter of the time of torch's sort and kthvalue on a CPU."""

from __future__ import annotations

import numpy as np

CHUNK = 1 << 17  # elements looked at together, which stay in the cache
Part = tuple[np.ndarray, np.ndarray]  # (values (k,) float32, indices (k,) int32), as `Sparse`


def order(indices: np.ndarray) -> np.ndarray:
    """Which element comes where, ascending, equal ones as they stand (n,). The stable sort is a merge of stretches that
    are in order already."""
    return np.argsort(indices, kind="stable")


def among(mine: np.ndarray, others: np.ndarray, empty: int) -> np.ndarray:
    """Which of these indices are among the others: (n,) bool. All but `empty` are different, in each of the two.

    An index that is in both stands twice in their common order: a merge of two stretches, where searching each of
    thousands of places in thousands would take three times as long.
    """
    both = np.concatenate([others, mine])
    places = order(both)
    both = np.take(both, places)
    found = np.zeros(len(both), dtype=bool)
    found[places[1:][both[1:] == both[:-1]]] = True
    found = found[len(others) :]
    found[mine == empty] = empty in others
    return found


def above(vector: np.ndarray, bound: np.ndarray, equal: bool) -> np.ndarray:
    """Indices of all magnitudes of a vector (n,) above the bound (or also `equal`), ascending; NaN's too."""
    under = np.less if equal else np.less_equal
    found = []
    # the same scratch for all chunks: fresh ones between results that stay would scatter them over the heap
    sizes = np.empty(min(CHUNK, len(vector)), dtype=vector.dtype)
    small = np.empty(len(sizes), dtype=bool)
    with np.errstate(invalid="ignore"):
        for start in range(0, len(vector), CHUNK):
            chunk = vector[start : start + CHUNK]
            size, here = sizes[: len(chunk)], small[: len(chunk)]
            under(np.abs(chunk, out=size), bound, out=here)
            places = np.flatnonzero(np.logical_not(here, out=here))
            places += start
            found.append(places)
    return np.concatenate(found)


def largest(magnitudes: np.ndarray, k: int) -> np.ndarray:
    """Which k of the magnitudes (n,), without NaN, are the largest: (n,) bool, ties by position."""
    place = len(magnitudes) - k
    threshold = np.partition(magnitudes, place)[place]
    found = magnitudes > threshold
    if missing := k - int(np.count_nonzero(found)):
        found[np.flatnonzero(magnitudes == threshold)[:missing]] = True
    return found


def merge(a: Part, b: Part, k: int, empty: int) -> tuple[Part, Part]:
    """gTop-k's Definition 1, as `repro.fabric.sparse.gradients.merge` has it: (the k largest in magnitude of a + b, the
    rest).

    empty: the index of a place that holds nothing; negative indices are flags, which outweigh all values.
    """
    indices = np.concatenate([a[1], b[1]])
    places = order(indices)
    indices, values = np.take(indices, places), np.take(np.concatenate([a[0], b[0]]), places)
    first = np.flatnonzero(indices[1:] == indices[:-1])
    second = first + 1
    with np.errstate(over="ignore"):  # named where it is found: `Sparse.check`
        values[first] += values[second]
    values[second] = 0.0
    magnitudes = np.abs(values)
    magnitudes[: np.searchsorted(indices, 0)] = np.inf
    magnitudes[second] = -1.0
    indices[second] = empty
    kept = largest(magnitudes, k)
    here, there = np.flatnonzero(kept), np.flatnonzero(~kept)
    return (values[here], indices[here]), (values[there], indices[there])
