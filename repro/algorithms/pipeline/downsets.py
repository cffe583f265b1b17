"""The cuts of a model's graph: its downsets, sets of layers that contain with a layer all layers that it uses.

A pipeline stage is the difference of two nested downsets. The downsets of a chain are its prefixes. For graphs the
authors' code (github.com/msr-fiddle/pipedream, `graph/graph.py`) uses antichains, each of which defines a downset: its
layers and all before them. DEVIATION: if several layers have no inputs, their antichains miss downsets; here none is
missing.

Parallel branches have many downsets. If there are more than `LIMIT` besides the prefixes of the profile's order, the
search keeps equally many of each size: the prefix, so that no result is worse than that of the layers in a line, and
those with the fewest outgoing bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repro.algorithms.pipeline.layers import Profile
from repro.core.not_none import not_none

LIMIT = 600  # the partitioner's tables grow with the square of the number of downsets


@dataclass(frozen=True)
class Downsets:
    """The S downsets to search, from the empty one to that of all N layers, in the order of their sizes.

    members  (S, N) bool: the layers of each, in the profile's order
    leaving  (S,): bytes of its layers' outputs that a layer outside uses
    width    the most downsets of each size; None: all
    """

    members: np.ndarray
    leaving: np.ndarray
    width: int | None

    @classmethod
    def of(cls, profile: Profile) -> Downsets:
        layers = len(profile.layers)
        uses = np.zeros((layers, layers), np.float32)  # [i, j]: whether layer j uses layer i
        for source, user in profile.uses:
            uses[source, user] = 1
        sent = np.array([layer.activation_bytes for layer in profile.layers], float)
        members = _grow(uses, sent, None)
        width = None
        if members is None:
            width = 1 + LIMIT // layers
            members = not_none(_grow(uses, sent, width))
        return cls(members, _leaving(members, uses, sent), width)

    def sums(self, values: Sequence[float]) -> np.ndarray:
        """(S - 1, S - 1): [i, j] is the sum over the layers in downset j + 1 but not in i, if j + 1 contains i."""
        outside = ~self.members.T
        places = {row.tobytes(): place for place, row in enumerate(self.members)}
        sums = np.zeros((len(self.members), len(self.members)))  # [j, i]
        for place, members in enumerate(self.members):
            layers = np.flatnonzero(members).tolist()
            # no layer of a downset uses its last one: without it, it is a downset too, perhaps one with known sums
            rest = members.copy()
            rest[layers[-1:]] = False
            if layers and (before := places.get(rest.tobytes())) is not None:
                sums[place], layers = sums[before], layers[-1:]
            for layer in layers:  # always in the profile's order, for reproducible bits
                sums[place, outside[layer]] += values[layer]
        return np.ascontiguousarray(sums.T[:-1, 1:])

    def nested(self) -> np.ndarray:
        """(S - 1, S - 1) bool: [i, j], whether downset i is a proper subset of downset j + 1."""
        inside = self.members.astype(np.float32)
        return np.triu(inside[:-1] @ (1 - inside[1:]).T == 0)

    def about(self, profile: Profile) -> str:
        """A line that describes the search."""
        layers = len(profile.layers)
        if len(self.members) == layers + 1 and self.width is None:
            return f"a chain of {layers} layers"
        users = Counter(source for source, _ in set(profile.uses))
        branching = sum(count > 1 for count in users.values())
        what = f"a graph of {layers} layers, {branching} of them used by several"
        if self.width is None:
            return f"{what}: all {len(self.members)} downsets"
        count = f"more than {LIMIT + layers + 1} downsets, {len(self.members)} of them searched"
        return f"{what}: {count}, at most {self.width} of each number of layers"

    def between(self, first: int, last: int) -> list[int]:
        """The layers in downset `last` + 1 but not in downset `first`, in the profile's order."""
        return np.flatnonzero(self.members[last + 1] & ~self.members[first]).tolist()


def _grow(uses: np.ndarray, sent: np.ndarray, width: int | None) -> np.ndarray | None:
    """The downsets by increasing size, at most `width` of each size; None if width is None and there are too many."""
    level = np.zeros((1, len(sent)), bool)
    lacking = uses.sum(axis=0, keepdims=True)  # [downset, layer]: the number of layers outside that the layer uses
    outside = uses.sum(axis=1)[None, :]  # [downset, layer]: the number of layers outside that use the layer
    levels, count = [level], 1
    for _ in sent:
        grown, added = np.nonzero(~level & (lacking == 0))
        level = level[grown]
        level[np.arange(len(added)), added] = True
        # in decreasing order, so the prefix is first
        places = {row.tobytes(): place for place, row in enumerate(level)}
        order = np.array([places[row] for row in sorted(places, reverse=True)])
        if width is not None:
            leaving = (level[order[1:]] & (outside[grown] - uses[:, added].T > 0)[order[1:]]) @ sent
            order = order[[0, *np.sort(np.argsort(leaving, kind="stable")[: width - 1]) + 1]]
        grown, added, level = grown[order], added[order], level[order]
        lacking, outside = lacking[grown] - uses[added], outside[grown] - uses[:, added].T
        levels.append(level)
        count += len(level)
        if width is None and count > LIMIT + len(sent) + 1:
            return None
    return np.concatenate(levels)


def _leaving(members: np.ndarray, uses: np.ndarray, sent: np.ndarray) -> np.ndarray:
    """(S,): bytes of the outputs of each downset's layers that layers outside use."""
    return (members & ((~members).astype(np.float32) @ uses.T > 0)) @ sent
