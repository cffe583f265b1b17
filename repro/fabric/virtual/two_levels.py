"""A virtual fabric whose library sums inside machines first, as NCCL and Horovod can."""

from __future__ import annotations

from typing import Any

import torch

from repro.fabric.base import MAIN, DoneWork, Work
from repro.fabric.collectives.hierarchical import hierarchical_allreduce
from repro.fabric.virtual.fabric import VirtualFabric


class TwoLevelFabric(VirtualFabric):
    """Its own allreduce of all ranks is hierarchical over the network's hosts."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        hosts = self.world.network.hosts
        if self.group == 0 and hosts:
            every = range(self.size)
            self.inside = self.subgroup([rank for rank in every if rank % hosts == self.rank % hosts])
            self.across = self.subgroup([rank for rank in every if rank // hosts == self.rank // hosts])

    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        if self.group != 0:
            return super().native_allreduce(tensor, channel)
        assert self.inside and self.across
        hierarchical_allreduce(self.inside, self.across, tensor, channel)
        return DoneWork()
