"""The modes of iBatch's decision: functions from a profile to batches, by name."""

from __future__ import annotations

from collections.abc import Callable

from repro.algorithms.batching.exact import exact
from repro.algorithms.batching.greedy import algorithm1, algorithm2, greedy
from repro.algorithms.batching.profile import PullProfile, groups
from repro.algorithms.batching.times import Batches
from repro.core.errors import unknown


def default(profile: PullProfile) -> Batches:
    """One pull of all layers before the computation (Figure 4(a))."""
    return ((1, len(profile.transfer_s)),)


def layerwise(profile: PullProfile) -> Batches:
    """A pull for each layer with parameters (Figure 4(b)); the others join the layer before, or are batch 0."""
    return tuple(groups(profile))


_DECISIONS: dict[str, Callable[[PullProfile], Batches]] = {
    "default": default,
    "layerwise": layerwise,
    "algorithm1": algorithm1,
    "algorithm2": algorithm2,
    "greedy": greedy,
    "exact": exact,
}
MODES = tuple(_DECISIONS)


def decide(profile: PullProfile, mode: str) -> Batches:
    """The batches of a mode, a partition of layers 1 to L; InputError for an unknown mode."""
    if mode not in _DECISIONS:
        raise unknown("mode", mode, MODES)
    return _DECISIONS[mode](profile)
