"""Profiles for tests of iBatch's decision, and its equations in exact arithmetic, independent of the code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise

from hypothesis import strategies as st

from repro.algorithms.batching.profile import PullProfile

# milliseconds, small and whole: equal sums happen, so that ties are tested
FEW = st.integers(0, 6)


def in_ms(startup: int, transfers: Sequence[int], forwards: Sequence[int], **others) -> PullProfile:
    """A profile of whole milliseconds."""
    return PullProfile(startup / 1000, tuple(t / 1000 for t in transfers), tuple(c / 1000 for c in forwards), **others)


@st.composite
def small_profiles(draw, most: int = 9, zeros: bool = True) -> PullProfile:
    """Up to so many layers, in whole milliseconds; some without parameters if `zeros`."""
    layers = draw(st.integers(1, most))
    transfer = FEW if zeros else st.integers(1, 6)
    transfers = draw(st.lists(transfer, min_size=layers, max_size=layers))
    forwards = draw(st.lists(FEW, min_size=layers, max_size=layers))
    return in_ms(draw(FEW), transfers, forwards)


SECONDS = st.floats(0, 10, allow_subnormal=False)


@st.composite
def any_profiles(draw, most: int = 12) -> PullProfile:
    """Up to so many layers, of any times between 0 and 10 seconds."""
    layers = draw(st.integers(1, most))
    times = st.lists(SECONDS, min_size=layers, max_size=layers)
    return PullProfile(draw(SECONDS), tuple(draw(times)), tuple(draw(times)))


def partitions(layers: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every partition of layers 1 to `layers` into batches."""
    for count in range(layers):
        for cuts in combinations(range(1, layers), count):
            ends = (0, *cuts, layers)
            yield tuple((start + 1, end) for start, end in pairwise(ends))


def as_written(seconds: float) -> Fraction:
    """The decimal number that a float is written as."""
    return Fraction(repr(seconds))


def pull(profile: PullProfile, batch: tuple[int, int]) -> Fraction:
    """T_s and the transfers of a batch's layers; nothing is pulled for a batch without parameters."""
    transfers = [as_written(profile.transfer_s[layer - 1]) for layer in range(batch[0], batch[1] + 1)]
    return as_written(profile.startup_s) + sum(transfers) if any(transfers) else Fraction(0)


def pulls(profile: PullProfile, batches: Sequence[tuple[int, int]]) -> int:
    """How many batches have parameters."""
    return sum(any(profile.transfer_s[first - 1 : last]) for first, last in batches)


def executed(profile: PullProfile, batches: Sequence[tuple[int, int]]) -> Fraction:
    """The end of a simulation in exact arithmetic."""
    pulled = computed = Fraction(0)
    for first, last in batches:
        pulled += pull(profile, (first, last))
        computed = max(computed, pulled) + sum(map(as_written, profile.forward_s[first - 1 : last]))
    return computed


def exetime(profile: PullProfile, batches: Sequence[tuple[int, int]]) -> Fraction:
    """Equation (4) in exact arithmetic."""
    first, layers = batches[-1]
    pulls = sum(pull(profile, batch) for batch in batches)
    return pulls + sum(map(as_written, profile.forward_s[first - 1 : layers]))


def meets(profile: PullProfile, batches: Sequence[tuple[int, int]]) -> bool:
    """Equation (5) in exact arithmetic."""
    return all(
        pull(profile, following) >= sum(map(as_written, profile.forward_s[first - 1 : last]))
        for (first, last), following in pairwise(batches)
    )
