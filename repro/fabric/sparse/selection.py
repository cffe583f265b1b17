"""Which elements of a gradient leave: the k of largest magnitude, exactly, or from the threshold of a sample."""

from __future__ import annotations

from collections.abc import Callable

import torch

from repro.core.errors import unknown
from repro.fabric.sparse import host as sparse_host
from repro.fabric.sparse.gradients import EMPTY, Sparse, largest, positions

SHORT = 1 << 15  # elements of a vector for which guessing does not pay
CHUNK = 1 << 20  # elements looked at together: scratch of a few megabytes, and it stays in the cache
MOST = 4  # times k: so many elements above a sampled threshold are looked at on a GPU
SAMPLE = 1 << 16  # elements from which a threshold is estimated
EVERY = 16  # elements of which the exact selection looks at one at most: what it guesses needs not be good
SURE = 4.0  # deviations by which the exact selection's first guess at the threshold stays below the estimate


def select(vector: torch.Tensor, k: int, how: str = "exact") -> Sparse:
    """k elements of a vector (n,), 1 <= k <= n, indices ascending; those of NaN and infinity are always among them.

    exact: those of largest magnitude, ties by index (Algorithm 1, lines 5 to 7; docs/errata.md: exactly k).
    sampled: those above a threshold that leaves k of n in a sample of the vector (Lin et al., "Deep Gradient
    Compression", ICLR 2018, section 3.1), of more than k the largest; of fewer all, and the other places are EMPTY.
    """
    check(how)
    n = vector.numel()
    if vector.is_meta:
        return Sparse(vector.new_empty(k), torch.empty(k, dtype=torch.int32, device="meta"))
    if k == n:
        return Sparse(vector.clone(), torch.arange(n, dtype=torch.int32, device=vector.device))
    indices = METHODS[how](vector, k)
    values = vector[indices.clamp(max=n - 1)]
    if vector.device.type != "cpu" and how == "sampled":
        values.masked_fill_(indices == EMPTY, 0.0)
    if (places := k - indices.numel()) > 0:
        indices = torch.cat([indices, indices.new_full((places,), EMPTY)])
        values = torch.cat([values, values.new_zeros(places)])
    return Sparse(values, indices.to(torch.int32))


def exact(vector: torch.Tensor, k: int) -> torch.Tensor:
    """Indices (k,) of the k largest magnitudes, ties by index."""
    if vector.device.type != "cpu":
        return exact_at_once(vector, k)
    if vector.numel() <= SHORT:
        return ranked(magnitudes(vector), k)
    bound = guess(vector, k, SURE, EVERY)
    while True:
        found = above(vector, bound)
        if found.numel() >= k:
            return found[ranked(magnitudes(vector[found]), k)]
        # too high a guess, or so many magnitudes equal to it that the sample saw nothing else
        equal = first_equal(vector, bound, k - found.numel())
        if found.numel() + equal.numel() == k:
            return torch.cat([found, equal]).sort().values
        bound = below(vector, bound)


def exact_at_once(vector: torch.Tensor, k: int) -> torch.Tensor:
    """As `exact`, with static shapes and nothing read on the host, and with scratch of the vector's size: for a GPU.

    (On a CPU torch.topk takes 16 bytes an element and ten times as long.)
    """
    n = vector.numel()
    sizes = magnitudes(vector)
    found, where = torch.topk(sizes, k)
    threshold = found[-1]
    falling = torch.arange(n, 0, -1, dtype=torch.int32, device=vector.device)
    ties = n - torch.topk(torch.where(sizes == threshold, falling, 0), k).values  # the lowest indices first
    greater = found > threshold
    nth = (torch.arange(k, device=vector.device) - greater.sum()).clamp_(min=0)
    return torch.where(greater, where, ties.to(torch.int64)[nth]).sort().values


def sampled(vector: torch.Tensor, k: int) -> torch.Tensor:
    """Indices of at most k elements above the sample's threshold, ascending."""
    if vector.device.type != "cpu":
        return sampled_at_once(vector, k)
    found = above(vector, guess(vector, k, 0.0), equal=True)
    return found if found.numel() <= k else found[ranked(magnitudes(vector[found]), k)]


def sampled_at_once(vector: torch.Tensor, k: int) -> torch.Tensor:
    """As `sampled`, with static shapes and nothing read on the host, for a GPU: (k,), `EMPTY` at the end for those that
    are missing. Zeros are not among them. Of more than `MOST` k above the threshold, which a sample of random elements
    does not come to, the first so many are looked at."""
    n, many = vector.numel(), min(MOST * k, vector.numel())
    sizes = magnitudes(vector)
    found = (sizes >= guess(vector, k, 0.0)) & (sizes > 0)
    place = found.cumsum(0, dtype=torch.int32) - 1
    place = torch.where(found & (place < many), place, many).to(torch.int64)  # all others to one place behind the end
    numbers = torch.arange(n, dtype=torch.int64, device=vector.device)
    candidates = torch.full((many + 1,), EMPTY, device=vector.device).scatter_(0, place, numbers)[:many]
    theirs = torch.where(candidates == EMPTY, -1.0, sizes[candidates.clamp(max=n - 1)])
    chosen = positions(largest(theirs, k), k)  # of equal ones the first: those that are missing stand at the end
    return candidates[chosen]


def magnitudes(vector: torch.Tensor) -> torch.Tensor:
    """|v|, with infinity for NaN, so that it is selected and comparisons hold."""
    return vector.abs().nan_to_num_(nan=torch.inf, posinf=torch.inf)


def ranked(sizes: torch.Tensor, k: int) -> torch.Tensor:
    """Positions (k,) of the k largest, ascending, ties by position."""
    return positions(largest(sizes, k), k)


def guess(vector: torch.Tensor, k: int, deviations: float, least: int = 1) -> torch.Tensor:
    """A magnitude that about k elements reach, from every so-manieth element; lower by so many deviations.

    least: of every how many elements one is looked at, however short the vector is.
    """
    n = vector.numel()
    sample = magnitudes(vector[:: max(least, n // SAMPLE)])
    expected = k * sample.numel() / n
    place = round(expected + deviations * (1 + expected**0.5))
    return sample.topk(min(max(place, 1), sample.numel())).values[-1]


def above(vector: torch.Tensor, bound: torch.Tensor, equal: bool = False) -> torch.Tensor:
    """Indices of all magnitudes of a CPU vector above the bound (or also `equal`), ascending; those of NaN too."""
    return torch.from_numpy(sparse_host.above(vector.detach().numpy(), bound.numpy(), equal))


def first_equal(vector: torch.Tensor, bound: torch.Tensor, count: int) -> torch.Tensor:
    """The lowest `count` indices whose magnitude is the bound, or as many as there are."""
    found, missing = [], count
    for start in range(0, vector.numel(), CHUNK):
        here = (vector[start : start + CHUNK].abs() == bound).nonzero().view(-1)[:missing].add_(start)
        found.append(here)
        missing -= here.numel()
        if not missing:
            break
    return torch.cat(found)


def below(vector: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
    """The median of what a sample holds under the bound, else the largest magnitude of all that is."""
    sample = magnitudes(vector[:: max(1, vector.numel() // SAMPLE)])
    lower = sample[sample < bound]
    if lower.numel():
        return lower.median()
    chunks = (magnitudes(chunk) for chunk in vector.split(CHUNK))
    return torch.stack([torch.where(chunk < bound, chunk, 0.0).max() for chunk in chunks]).max()


METHODS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {"exact": exact, "sampled": sampled}


def check(how: str) -> None:
    """InputError unless the way to select exists."""
    if how not in METHODS:
        raise unknown("selection", how, METHODS)
