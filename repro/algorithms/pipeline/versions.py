"""The versions of a stage's weights (weight stashing, section 3.4): each is a vector, made when an update needs it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch

from repro.training.model_shard import ModelShard


class Versions:
    """Version v of a part's weights is what they are after v updates; those that passes still need stay as they are.

    An update works on a copy where somebody still needs the weights before it, and in their place otherwise. Vectors
    are allocated when there are more versions than ever before and used again after (section 3.5).

    keep    False: one vector for all, updated in place, whatever passes are under way (naive pipelining)
    peak    most versions held at once
    """

    def __init__(self, shard: ModelShard, keep: bool = True):
        self.shard, self.keep = shard, keep
        self.latest, self.peak = 0, 1
        self.held: dict[int, torch.Tensor] = {0: shard.weights}
        self.spare: list[torch.Tensor] = []

    def use(self, version: int) -> None:
        """Compute with this version from now on."""
        if self.keep:
            self._point(version)

    def use_latest(self) -> None:
        self._point(self.latest)

    def _point(self, version: int) -> None:
        if self.shard.weights is not self.held[version]:
            self.shard.point_at(self.held[version])

    def advance(self, update: Callable[[], None], needed: Collection[int]) -> None:
        """Make the next version by `update`, which steps the part's weights in place.

        needed: the versions that passes under way or still to come use; others' vectors are free.
        """
        if self.keep:
            for version in [v for v in self.held if v != self.latest and v not in needed]:
                self.spare.append(self.held.pop(version))
        before, following = self.held[self.latest], self.latest + 1
        if self.keep and self.latest in needed:
            mine = self.spare.pop() if self.spare else torch.empty_like(before)
            mine.copy_(before)
        else:
            mine = self.held.pop(self.latest)
        self.held[following], self.latest = mine, following
        self.peak = max(self.peak, len(self.held))
        self.use_latest()
        # an update in place changes what autograd has saved of the passes under way; that it must not notice: with
        # stashing they are pointed at their own version again, without it they use what they find
        with torch.autograd._unsafe_preserve_version_counter(tuple(self.shard.parameters)):
            update()

    def state_dict(self) -> dict:
        """All versions but the latest, which is the part's own state."""
        older = {version: vector.clone() for version, vector in self.held.items() if version != self.latest}
        return {"latest": self.latest, "older": older}

    def load_state_dict(self, state: dict) -> None:
        """After the part has its own; the versions hold new vectors then."""
        self.latest = state["latest"]
        self.spare.clear()
        self.held = {self.latest: self.shard.weights}
        for version, vector in state["older"].items():
            self.held[version] = vector.to(self.shard.device, copy=True)
        self.peak = max(self.peak, len(self.held))
