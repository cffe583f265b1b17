"""`Fabric` with an allreduce whose algorithm is chosen by name."""

from __future__ import annotations

import torch

from repro.fabric.base import MAIN, DoneWork, Fabric, Work
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.auto import NATIVE, Crossover
from repro.fabric.meta_tensors import divide_tensor


class FabricWithAlgorithms(Fabric):
    """The base of real and virtual fabrics: reductions by the algorithms of `repro.fabric.collectives.dense`."""

    def allreduce(
        self, tensor: torch.Tensor, op: str = "sum", channel: int = MAIN, async_: bool = False, algorithm: str = "auto"
    ) -> Work:
        if algorithm == "auto":
            algorithm = NATIVE if async_ or self.auto is None else self.auto.algorithm(tensor)
        if algorithm == NATIVE:
            work = self.native_allreduce(tensor, channel)
            if not async_ or op == "mean":
                work.wait()
        else:
            collectives.allreduce_algorithm(algorithm)(self, tensor, channel)
            work = DoneWork()
        if op == "mean":
            divide_tensor(tensor, self.size)
        return work

    def settle_auto(self) -> None:
        if self.auto is None:
            self.auto = self.find_auto()

    def find_auto(self) -> Crossover:
        """The choice for "auto" on this fabric; in virtual time always the textbook ring."""
        return Crossover(None, "virtual time: the library's allreduce is the textbook's ring, nothing is measured")

    def reduce_scatter(self, tensor: torch.Tensor, channel: int = MAIN) -> torch.Tensor:
        return collectives.ring_reduce_scatter(self, tensor, channel)
