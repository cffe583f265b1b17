"""The duration of batches of layers, exact: by the paper's equations, and in the executed pipeline.

With floats the result of 0.1 + 0.2 >= 0.3, and so constraint (5), depends on the order of the terms. The unit is the
last decimal of the profile's times, or as fine as 62 bits allow (about 1e-18 of their sum; a float has 1e-16).

EXETime, Equation (4), is the sum of all pulls and the forward computation of the last batch. The executed time is the
end of the forward pass if pulls follow each other, and a batch computes as soon as its parameters have arrived and the
batch before is computed. EXETime is at most the executed time, and equal to it if constraint (5) holds for every batch;
otherwise EXETime may omit computation that no pull hides.

Batches are a tuple of (first, last) layer, inclusive and numbered from 1 as in the paper. A batch without parameters is
not pulled and costs no T_s. At the front it is batch 0, which the paper does not have: it computes from the start,
while batch 1 is pulled. N counts the other batches; (5) applies to batch 0 too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import NamedTuple

from repro.algorithms.batching.profile import PullProfile, layer_groups
from repro.core.errors import InputError

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


Batches = tuple[tuple[int, int], ...]


class Interval(NamedTuple):
    """A box of Figure 4, in seconds from the start of the first pull.

    kind   startup, transfer or forward
    batch  its number, from 1; 0 for layers at the front without parameters
    layer  its number, from 1; None for a startup
    """

    kind: str
    batch: int
    layer: int | None
    start: float
    end: float


def exetime_s(profile: PullProfile, batches: Batches) -> float:
    """EXETime of Equation (4): the paper's execution time, (1) + (2) + (3); in seconds."""
    ticks = check_batches(profile, batches)
    return ticks.seconds(exetime_ticks(ticks, batches))


def executed_s(profile: PullProfile, batches: Batches) -> float:
    """The end of the forward pass in the pipeline, in seconds; at most the default's T_s + all T_t + all C, for N = 1.

    Pulls follow one another without a pause, each of T_s and its batch's transfers. Batch k starts to compute when its
    pull and the computation of batch k - 1 have ended; batch 0 at once.
    """
    ticks = check_batches(profile, batches)
    return ticks.seconds(executed_ticks(ticks, batches))


def meets_constraint(profile: PullProfile, batches: Batches) -> bool:
    """Whether (5) holds for every k < N: the pull of batch k + 1 takes at least as long as computing batch k."""
    ticks = check_batches(profile, batches)
    return all(ticks.pull(*following) >= ticks.forward(*batch) for batch, following in pairwise(batches))


def count_pulls(profile: PullProfile, batches: Batches) -> int:
    """N: the number of batches with parameters."""
    ticks = check_batches(profile, batches)
    return sum(ticks.pulls(*batch) for batch in batches)


def number_batches(profile: PullProfile, batches: Batches) -> list[tuple[int, tuple[int, int]]]:
    """Each batch with its number, from 1, or from 0 if the first has no parameters."""
    return list(enumerate(batches, int(check_batches(profile, batches).pulls(*batches[0]))))


def batch_timeline(profile: PullProfile, batches: Batches) -> list[Interval]:
    """The boxes of `executed_s`: all pulls, then the forward computation (Figure 4)."""
    ticks = check_batches(profile, batches)
    pulls: list[Interval] = []
    forwards: list[Interval] = []
    pulled = computed = 0

    def add(boxes: list[Interval], what: tuple[str, int, int | None], start: int, length: int) -> int:
        boxes.append(Interval(*what, ticks.seconds(start), ticks.seconds(start + length)))
        return start + length

    for number, (first, last) in number_batches(profile, batches):
        if ticks.pulls(first, last):
            pulled = add(pulls, ("startup", number, None), pulled, ticks.startup)
        for layer in range(first, last + 1):
            if profile.transfer_s[layer - 1] > 0:
                pulled = add(pulls, ("transfer", number, layer), pulled, ticks.transfer(layer, layer))
        computed = max(computed, pulled)
        for layer in range(first, last + 1):
            computed = add(forwards, ("forward", number, layer), computed, ticks.forward(layer, layer))
    return pulls + forwards


def check_batches(profile: PullProfile, batches: Sequence[Sequence[int]]) -> Ticks:
    """The profile's ticks; InputError unless the batches contain all its layers in order."""
    layers = len(profile.transfer_s)
    ends = [0, *(last for _, last in batches)]
    in_order = all(end < following for end, following in pairwise(ends))
    if ends[-1] != layers or not in_order or [first - 1 for first, _ in batches] != ends[:-1]:
        raise InputError(f"batches {as_text(batches)}: must be all layers from 1 to {layers} in order")
    return ticks_of(profile)


def as_text(batches: Sequence[Sequence[int]]) -> str:
    """Batches in the paper's notation: [1, 5], [6, 10], [11, 12]."""
    return ", ".join(f"[{first}, {last}]" for first, last in batches)


# --- in ticks


def exetime_ticks(ticks: Ticks, batches: Batches) -> int:
    exe_1, *exe_2 = (ticks.pull(*batch) for batch in batches)  # (1) and (2): T_s and the transfers of each batch
    exe_3 = ticks.forward(*batches[-1])  # (3)
    return exe_1 + sum(exe_2) + exe_3  # (4)


def executed_ticks(ticks: Ticks, batches: Batches) -> int:
    pulled = computed = 0
    for first, last in batches:
        pulled += ticks.pull(first, last)
        computed = max(computed, pulled) + ticks.forward(first, last)
    return computed
