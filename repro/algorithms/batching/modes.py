"""The modes of iBatch's decision: functions from a profile to batches, by name."""

from __future__ import annotations

from collections.abc import Callable

from repro.algorithms.batching.exact import best_batches
from repro.algorithms.batching.greedy import algorithm1, algorithm2, greedy_batches
from repro.algorithms.batching.profile import PullProfile, layer_groups
from repro.algorithms.batching.times import Batches
from repro.core.errors import unknown_name


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
