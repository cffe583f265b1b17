"""The duration of batches of layers: by the paper's equations, and in the executed pipeline.

EXETime, Equation (4), is the sum of all pulls and the forward computation of the last batch. The executed time is the
end of the forward pass if pulls follow each other, and a batch computes as soon as its parameters have arrived and the
batch before is computed. EXETime is at most the executed time, and equal to it if constraint (5) holds for every batch;
otherwise EXETime may omit computation that no pull hides.

Batches are a tuple of (first, last) layer, inclusive and numbered from 1 as in the paper. A batch without parameters is
not pulled and costs no T_s. At the front it is batch 0, which the paper does not have: it computes from the start,
while batch 1 is pulled. N counts the other batches; (5) applies to batch 0 too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.ticks import Ticks, ticks_of
from repro.core.errors import InputError

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
