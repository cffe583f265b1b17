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

from repro.common.known import known
from repro.pipeline.layers import Profile

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
            members = known(_grow(uses, sent, width))
        return cls(members, _leaving(members, uses, sent), width)

    def sums(self, values: Sequence[float]) -> np.ndarray:
        """(S - 1, S - 1): [i, j] sums the values of the layers that downset j + 1 has more than downset i; of any use
        only where the one is inside the other."""
        found = np.zeros((len(self.members), len(self.members)))
        for value, inside in zip(values, self.members.T):
            found[np.ix_(~inside, inside)] += value
        return found[:-1, 1:]

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
    found, count = [level], 1
    for _ in sent:
        ready = ~level & ((~level).astype(np.float32) @ uses == 0)
        grown, added = np.nonzero(ready)
        level = level[grown]
        level[np.arange(len(added)), added] = True
        # in decreasing order: the prefix comes first
        rows = sorted({row.tobytes() for row in level}, reverse=True)
        level = np.frombuffer(b"".join(rows), bool).reshape(len(rows), -1)
        if width is not None:
            fewest = np.argsort(_leaving(level[1:], uses, sent), kind="stable")[: width - 1]
            level = level[[0, *np.sort(fewest) + 1]]
        found.append(level)
        count += len(level)
        if width is None and count > LIMIT + len(sent) + 1:
            return None
    return np.concatenate(found)


def _leaving(members: np.ndarray, uses: np.ndarray, sent: np.ndarray) -> np.ndarray:
    """(S,): bytes of the outputs of each downset's layers that a layer outside uses."""
    return (members & ((~members).astype(np.float32) @ uses.T > 0)) @ sent
