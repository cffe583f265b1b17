"""A profile's times as integers of one decimal unit, so that sums, comparisons and ties are exact.

With floats the result of 0.1 + 0.2 >= 0.3, and so constraint (5), depends on the order of the terms. The unit is the
last decimal of the profile's times, or as fine as 62 bits allow (about 1e-18 of their sum; a float has 1e-16).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, pairwise

from repro.algorithms.batching.profile import PullProfile, layer_groups

DIGITS = 18  # most digits of the sum of all times; numpy's int64 ends at 9.2e18


@dataclass(frozen=True)
class Ticks:
    """Times in units of 10**-decimals seconds.

    startup   T_s
    pulled    (L + 1,): transfer time of the first 0, 1, ... L layers
    computed  (L + 1,): forward time of these layers
    owning    (L + 1,): how many of these layers have parameters
    """

    startup: int
    pulled: tuple[int, ...]
    computed: tuple[int, ...]
    owning: tuple[int, ...]
    decimals: int

    @property
    def layers(self) -> int:
        return len(self.pulled) - 1

    @property
    def leading(self) -> int:
        """The number of layers at the front without parameters: batch 0."""
        return self.owning.count(0) - 1

    def behind_leading(self) -> Ticks:
        """The ticks of the layers behind batch 0, counted from 1."""
        start = self.leading
        pulled, computed, owning = (
            tuple(s - each[start] for s in each[start:]) for each in (self.pulled, self.computed, self.owning)
        )
        return Ticks(self.startup, pulled, computed, owning, self.decimals)

    def transfer(self, first: int, last: int) -> int:
        """The sum of T_t^i over first <= i <= last; layers from 1."""
        return self.pulled[last] - self.pulled[first - 1]

    def pulls(self, first: int, last: int) -> bool:
        """Whether any of these layers has parameters."""
        return self.owning[last] > self.owning[first - 1]

    def pull(self, first: int, last: int) -> int:
        """The communication time of a batch: T_s plus that sum; 0 if none of its layers has parameters."""
        return self.startup + self.transfer(first, last) if self.pulls(first, last) else 0

    def forward(self, first: int, last: int) -> int:
        """The sum of C^i over first <= i <= last; layers from 1."""
        return self.computed[last] - self.computed[first - 1]

    def seconds(self, ticks: int) -> float:
        """Ticks in seconds, rounded to the nearest float."""
        return ticks / 10**self.decimals if self.decimals >= 0 else float(ticks * 10**-self.decimals)


@functools.lru_cache(maxsize=64)
def ticks_of(profile: PullProfile) -> Ticks:
    """A profile's ticks, exact if its times have few enough decimals, else rounded to the unit."""
    times = [Decimal(repr(float(s))) for s in (profile.startup_s, *profile.transfer_s, *profile.forward_s)]
    written = max(-int(time.normalize().as_tuple().exponent) for time in times)
    layers = len(profile.transfer_s)
    most = times[0] * layers + sum(times[1:])  # no batches take longer
    decimals = min(written, DIGITS - 1 - most.adjusted()) if most else 0
    startup, *ticks = (int(time.scaleb(decimals).to_integral_value()) for time in times)
    pulled, computed, owning = (
        tuple(accumulate(each, initial=0))
        for each in (ticks[:layers], ticks[layers:], [int(seconds > 0) for seconds in profile.transfer_s])
    )
    return Ticks(startup, pulled, computed, owning, decimals)


def join_groups(profile: PullProfile) -> tuple[Ticks, list[tuple[int, int]]]:
    """The ticks of the layers' `groups`, and the groups; only the first may be without parameters."""
    pairs = layer_groups(profile)
    whole, ends = ticks_of(profile), [0, *(last for _, last in pairs)]
    pulled, computed, owning = (
        tuple(each[end] for end in ends) for each in (whole.pulled, whole.computed, whole.owning)
    )
    return Ticks(whole.startup, pulled, computed, owning, whole.decimals), pairs


def split_groups(ends: list[int], groups: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Batches of groups as batches of layers; ends: the number of groups in batch 0, then the last group of each."""
    ends = [0, *ends] if ends[0] else ends
    return tuple((groups[start][0], groups[end - 1][1]) for start, end in pairwise(ends))
