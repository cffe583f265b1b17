"""The versions of a stage's weights (weight stashing, section 3.4)."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch

from repro.training.model_shard import ModelShard


class Versions:
    """Version v is the stage's weights after v updates. Versions that passes still need are kept unchanged.

    An update works on a copy if passes still need the current weights, else in place. Vectors are reused (section 3.5).

    keep    False: a single vector, always updated in place (naive pipelining)
    peak    the most versions held at once
    """

    def __init__(self, shard: ModelShard, keep: bool = True):
        self.shard, self.keep = shard, keep
        self.latest, self.peak = 0, 1
        self.held: dict[int, torch.Tensor] = {0: shard.weights}
        self.spare: list[torch.Tensor] = []

    def use(self, version: int) -> None:
        """Make the model compute with this version."""
        if self.keep:
            self._point(version)

    def use_latest(self) -> None:
        self._point(self.latest)

    def _point(self, version: int) -> None:
        if self.shard.weights is not self.held[version]:
            self.shard.point_at(self.held[version])

    def advance(self, update: Callable[[], None], needed: Collection[int]) -> None:
        """Create the next version by `update`, which changes the weights in place.

        needed: the versions that current and future passes use; the vectors of others are reused.
        """
        if self.keep:
            for version in [v for v in self.held if v != self.latest and v not in needed]:
                self.spare.append(self.held.pop(version))
        if self.keep and self.latest in needed:
            vector = self.spare.pop() if self.spare else torch.empty_like(self.held[self.latest])
            vector.copy_(self.held[self.latest])
        else:
            vector = self.held.pop(self.latest)
        self.latest += 1
        self.held[self.latest] = vector
        self.peak = max(self.peak, len(self.held))
        self.use_latest()
        # Autograd must not detect that the update changes tensors that it has saved: with stashing their passes get
        # their own version back, without stashing they use the new weights.
        with torch.autograd._unsafe_preserve_version_counter(tuple(self.shard.parameters)):
            update()

    def state_dict(self) -> dict:
        """All versions but the latest, which is in the model shard's state."""
        older = {version: vector.clone() for version, vector in self.held.items() if version != self.latest}
        return {"latest": self.latest, "older": older}

    def load_state_dict(self, state: dict) -> None:
        """Restore a `state_dict`, after the model shard's."""
        self.latest = state["latest"]
        self.spare.clear()
        self.held = {self.latest: self.shard.weights}
        for version, vector in state["older"].items():
            self.held[version] = vector.to(self.shard.device, copy=True)
        self.peak = max(self.peak, len(self.held))
