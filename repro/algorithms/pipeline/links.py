"""The fabric of messages between stages: the run's, or a group for each direction of each pair of ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from repro.algorithms.pipeline.layout import Layout
from repro.algorithms.pipeline.passes import BACKWARD, FORWARD
from repro.fabric.base import Fabric, Work

TAGS = {FORWARD: 1, BACKWARD: 2}  # messages of a kind between two ranks are in the order of their minibatches


class Links:
    """The links of one rank. On a fabric without tags (NCCL) transfers to all peers run one after the other, so a
    receive that is posted early would block later sends. There each direction between two ranks gets a group of its
    own; the first message opens its connection."""

    def __init__(self, fabric: Fabric, layout: Layout, device: torch.device):
        """All ranks call this. device: of the messages."""
        self.fabric = fabric
        self.groups: dict[tuple[str, int], Fabric] = {}  # by kind and peer
        if "tags" in fabric.capabilities:
            return
        message = torch.zeros(1, device=device)
        for kind, source, to in message_directions(layout):  # in the same order on all ranks
            group = fabric.subgroup([source, to])
            if group is None:
                continue
            if fabric.rank == source:
                self.groups[kind, to] = group
                group.send(message, 1)
            else:
                self.groups[kind, source] = group
                group.recv(message, 0)

    def isend(self, kind: str, tensor: torch.Tensor, to: int) -> Work:
        if not self.groups:
            return self.fabric.isend(tensor, to, TAGS[kind])
        self.fabric.bytes_sent += tensor.nbytes
        return self.groups[kind, to].isend(tensor, 1)

    def irecv(self, kind: str, buffer: torch.Tensor, source: int) -> Work:
        if not self.groups:
            return self.fabric.irecv(buffer, source, TAGS[kind])
        return self.groups[kind, source].irecv(buffer, 0)


def message_directions(layout: Layout) -> Iterator[tuple[str, int, int]]:
    """(kind, sender, receiver) of every possible message, once each."""
    for stage in range(len(layout.stages) - 1):
        turns = range(math.lcm(layout.stages[stage].replicas, layout.stages[stage + 1].replicas))
        pairs = dict.fromkeys((layout.rank_of(stage, turn), layout.rank_of(stage + 1, turn)) for turn in turns)
        for before, behind in pairs:
            yield FORWARD, before, behind
            yield BACKWARD, behind, before
