"""Where a model's graph can be cut: its downsets, sets of layers that hold with a layer all those that it uses.

A stage of a pipeline is what one downset has more than another one inside it. The downsets of a chain are its prefixes.
Those of a graph are what the antichains of the authors' code (github.com/msr-fiddle/pipedream, `graph/graph.py`) stand
for: an antichain's layers and all before them. Where several layers use nothing theirs begin with one of them, and they
miss the downsets without it; here none is missing.

Branches side by side have many downsets. Where there are more than `LIMIT` besides the prefixes of the profile's order
a part is searched, equally many of each number of layers: the prefix, so that no result is worse than that of the
layers in a line, and of those that add a layer to one kept before the ones that fewest bytes leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repro.algorithms.pipeline.layers import Profile
from repro.core.not_none import not_none

LIMIT = 600  # the tables of the partitioner grow with the square of the downsets


@dataclass(frozen=True)
class Downsets:
    """The downsets that are searched, smallest first: from that of no layer to that of all.

    members  (S, N) bool: the layers of each, in the profile's order
    leaving  (S,): bytes of the outputs of its layers that a layer outside uses
    width    how many of each number of layers were kept; None: all
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
        """(S - 1, S - 1): [i, j] sums the values of the layers that downset j + 1 has more than downset i; of any use
        only where the one is inside the other."""
        outside = ~self.members.T
        places = {row.tobytes(): place for place, row in enumerate(self.members)}
        found = np.zeros((len(self.members), len(self.members)))  # [j, i]
        for place, own in enumerate(self.members):
            layers = np.flatnonzero(own).tolist()
            # without its last layer, which no other of it uses, it is a downset too, if one that is searched
            rest = own.copy()
            rest[layers[-1:]] = False
            if layers and (before := places.get(rest.tobytes())) is not None:
                found[place], layers = found[before], layers[-1:]
            for layer in layers:  # always in the profile's order: the sums are the same to the last bit
                found[place, outside[layer]] += values[layer]
        return np.ascontiguousarray(found.T[:-1, 1:])

    def nested(self) -> np.ndarray:
        """(S - 1, S - 1) bool: [i, j], whether downset i is inside downset j + 1 and smaller."""
        inside = self.members.astype(np.float32)
        return np.triu(inside[:-1] @ (1 - inside[1:]).T == 0)

    def about(self, profile: Profile) -> str:
        """What was searched, in a line."""
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
        """The layers that downset `last` + 1 has more than downset `first`, in the profile's order."""
        return np.flatnonzero(self.members[last + 1] & ~self.members[first]).tolist()


def _grow(uses: np.ndarray, sent: np.ndarray, width: int | None) -> np.ndarray | None:
    """The downsets layer by layer, `width` of each number of layers; None where all of them are too many."""
    level = np.zeros((1, len(sent)), bool)
    lacking = uses.sum(axis=0, keepdims=True)  # of each downset and layer: how many layers outside it uses
    outside = uses.sum(axis=1)[None, :]  # and by how many layers outside it is used
    found, count = [level], 1
    for _ in sent:
        grown, added = np.nonzero(~level & (lacking == 0))
        level = level[grown]
        level[np.arange(len(added)), added] = True
        # in decreasing order: the prefix comes first
        places = {row.tobytes(): place for place, row in enumerate(level)}
        kept = np.array([places[row] for row in sorted(places, reverse=True)])
        if width is not None:
            leaving = (level[kept[1:]] & (outside[grown] - uses[:, added].T > 0)[kept[1:]]) @ sent
            kept = kept[[0, *np.sort(np.argsort(leaving, kind="stable")[: width - 1]) + 1]]
        grown, added, level = grown[kept], added[kept], level[kept]
        lacking, outside = lacking[grown] - uses[added], outside[grown] - uses[:, added].T
        found.append(level)
        count += len(level)
        if width is None and count > LIMIT + len(sent) + 1:
            return None
    return np.concatenate(found)


def _leaving(members: np.ndarray, uses: np.ndarray, sent: np.ndarray) -> np.ndarray:
    """(S,): bytes of the outputs of each downset's layers that a layer outside uses."""
    return (members & ((~members).astype(np.float32) @ uses.T > 0)) @ sent
