"""Selects the k elements of largest magnitude: exactly, or by a threshold estimated from a sample."""

from __future__ import annotations

from collections.abc import Callable

import torch

from repro.core.errors import unknown_name
from repro.fabric.sparse import on_host
from repro.fabric.sparse.gradients import EMPTY, Sparse, largest_mask, mask_positions

SHORT = 1 << 15  # elements of a vector that is sorted without an estimate
CHUNK = 1 << 20  # elements processed together, which fit the cache
MOST = 4  # on a GPU, at most so many times k elements above a sampled threshold are considered
SAMPLE = 1 << 16  # elements from which a threshold is estimated
EVERY = 64  # the exact selection samples at most every n-th element: its estimate may be rough
SURE = 4.0  # standard deviations by which the exact selection lowers its first estimate of the threshold


def select_topk(vector: torch.Tensor, k: int, how: str = "exact") -> Sparse:
    """k elements of a vector (n,), 1 <= k <= n, with ascending indices; NaN and infinity are always selected.

    exact: those of largest magnitude, ties by index (Algorithm 1, lines 5 to 7; docs/errata.md, GK-1: exactly k).
    sampled: those above a threshold that leaves k of n in a sample of the vector (Lin et al., "Deep Gradient
    Compression", ICLR 2018, section 3.1): the k largest of them, or if they are fewer, all, and EMPTY places.
    """
    check_selection(how)
    n = vector.numel()
    if vector.is_meta:
        return Sparse(vector.new_empty(k), torch.empty(k, dtype=torch.int32, device="meta"))
    if k == n:
        return Sparse(vector.clone(), torch.arange(n, dtype=torch.int32, device=vector.device))
    indices = METHODS[how](vector, k)
    if vector.device.type == "cpu" or how == "exact":
        values = vector.index_select(0, indices)
    else:
        values = vector[indices.clamp(max=n - 1)].masked_fill_(indices == EMPTY, 0.0)
    if (places := k - indices.numel()) > 0:
        indices = torch.cat([indices, indices.new_full((places,), EMPTY)])
        values = torch.cat([values, values.new_zeros(places)])
    return Sparse(values, indices.to(torch.int32))


def select_exact(vector: torch.Tensor, k: int) -> torch.Tensor:
    """The indices (k,) of the k largest magnitudes, ties by index."""
    if vector.device.type != "cpu":
        return exact_at_once(vector, k)
    if vector.numel() <= SHORT:
        return rank_topk(vector, torch.arange(vector.numel()), k)
    bound = guess_threshold(vector, k, SURE, EVERY)
    while True:
        larger = indices_above(vector, bound)
        if larger.numel() >= k:
            return rank_topk(vector, larger, k)
        # the estimate was too high, or most magnitudes equal it
        equal = first_equal(vector, bound, k - larger.numel())
        if larger.numel() + equal.numel() == k:
            return torch.cat([larger, equal]).sort().values
        bound = median_below(vector, bound)


def exact_at_once(vector: torch.Tensor, k: int) -> torch.Tensor:
    """As `select_exact`, for a GPU: with static shapes, without reading values on the host, with scratch of the
    vector's size.

    (On a CPU torch.topk takes 16 bytes for each element and ten times as long.)
    """
    n = vector.numel()
    sizes = nan_magnitudes(vector)
    highest, where = torch.topk(sizes, k)
    threshold = highest[-1]
    falling = torch.arange(n, 0, -1, dtype=torch.int32, device=vector.device)
    ties = n - torch.topk(torch.where(sizes == threshold, falling, 0), k).values  # the lowest indices first
    greater = highest > threshold
    nth = (torch.arange(k, device=vector.device) - greater.sum()).clamp_(min=0)
    return torch.where(greater, where, ties.to(torch.int64)[nth]).sort().values


def select_sampled(vector: torch.Tensor, k: int) -> torch.Tensor:
    """The indices of at most k elements above the sampled threshold, ascending."""
    if vector.device.type != "cpu":
        return sampled_at_once(vector, k)
    indices = indices_above(vector, guess_threshold(vector, k, 0.0), equal=True)
    return indices if indices.numel() <= k else rank_topk(vector, indices, k)


def sampled_at_once(vector: torch.Tensor, k: int) -> torch.Tensor:
    """As `select_sampled`, for a GPU: (k,), with static shapes, without reading values on the host; EMPTY if fewer than
    k.

    Zeros are never selected. If more than `MOST` k elements are above the threshold, which a random sample does not
    produce, only the first ones are considered.
    """
    n, many = vector.numel(), min(MOST * k, vector.numel())
    sizes = nan_magnitudes(vector)
    large = (sizes >= guess_threshold(vector, k, 0.0)) & (sizes > 0)
    place = large.cumsum(0, dtype=torch.int32) - 1
    place = torch.where(large & (place < many), place, many).to(torch.int64)  # others go to an extra place
    numbers = torch.arange(n, dtype=torch.int64, device=vector.device)
    candidates = torch.full((many + 1,), EMPTY, device=vector.device).scatter_(0, place, numbers)[:many]
    candidate_sizes = torch.where(candidates == EMPTY, -1.0, sizes[candidates.clamp(max=n - 1)])
    return candidates[mask_positions(largest_mask(candidate_sizes, k), k)]  # the first of equal ones; EMPTY at the end


def nan_magnitudes(vector: torch.Tensor) -> torch.Tensor:
    """|v|, with infinity for NaN, so that NaN is selected and comparisons work."""
    return vector.abs().nan_to_num_(nan=torch.inf, posinf=torch.inf)


def rank_topk(vector: torch.Tensor, indices: torch.Tensor, k: int) -> torch.Tensor:
    """The k of these ascending indices of a CPU vector with the largest magnitudes, ascending, ties by index."""
    return torch.from_numpy(on_host.largest_of(indices.numpy(), vector.detach().numpy(), k))


def guess_threshold(vector: torch.Tensor, k: int, deviations: float, least: int = 1) -> torch.Tensor:
    """An estimate of the k-th largest magnitude, lowered by so many standard deviations, from every s-th element, with
    s at least `least`."""
    n = vector.numel()
    sample = vector[:: max(least, n // SAMPLE)]
    expected = k * sample.numel() / n
    place = min(max(round(expected + deviations * (1 + expected**0.5)), 1), sample.numel())
    if vector.device.type == "cpu":
        return torch.from_numpy(on_host.kth_magnitude(sample.detach().numpy(), place))
    return nan_magnitudes(sample).topk(place).values[-1]


def indices_above(vector: torch.Tensor, bound: torch.Tensor, equal: bool = False) -> torch.Tensor:
    """Indices of all magnitudes of a CPU vector above the bound (or also `equal`), ascending; those of NaN too."""
    return torch.from_numpy(on_host.indices_above(vector.detach().numpy(), bound.numpy(), equal))


def first_equal(vector: torch.Tensor, bound: torch.Tensor, count: int) -> torch.Tensor:
    """The lowest `count` indices (or all) whose magnitude equals the bound."""
    indices, missing = [], count
    for start in range(0, vector.numel(), CHUNK):
        here = (vector[start : start + CHUNK].abs() == bound).nonzero().view(-1)[:missing].add_(start)
        indices.append(here)
        missing -= here.numel()
        if not missing:
            break
    return torch.cat(indices)


def median_below(vector: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """The median of a sample's magnitudes below the bound; if it has none, the largest magnitude below the bound."""
    sample = nan_magnitudes(vector[:: max(1, vector.numel() // SAMPLE)])
    lower = sample[sample < bound]
    if lower.numel():
        return lower.median()
    chunks = (nan_magnitudes(chunk) for chunk in vector.split(CHUNK))
    return torch.stack([torch.where(chunk < bound, chunk, 0.0).max() for chunk in chunks]).max()


METHODS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {"exact": select_exact, "sampled": select_sampled}


def check_selection(how: str) -> None:
    """InputError unless the selection method exists."""
    if how not in METHODS:
        raise unknown_name("selection", how, METHODS)
