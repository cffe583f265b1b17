"""The allreduce by the name of its algorithm, which every fabric has: `Fabric`, and the collectives written on it."""

from __future__ import annotations

import torch

from repro.fabric.base import MAIN, DoneWork, Fabric, Work
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.auto import NATIVE, Crossover
from repro.fabric.meta_tensors import div


class FabricWithAlgorithms(Fabric):
    """What real and virtual fabrics share: reductions by the algorithms of `repro.fabric.collectives.dense`."""

    def allreduce(
        self,
        tensor: torch.Tensor,
        op: str = "sum",
        channel: int = MAIN,
        async_: bool = False,
        algorithm: str = "auto",
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
            div(tensor, self.size)
        return work

    def settle_auto(self) -> None:
        if self.auto is None:
            self.auto = self.find_auto()

    def find_auto(self) -> Crossover:
        """What `auto` is on this fabric: where time is virtual, what it has in the library's place."""
        return Crossover(None, "virtual time: the library's allreduce is the textbook's ring, nothing is measured")

    def reduce_scatter(self, tensor: torch.Tensor, channel: int = MAIN) -> torch.Tensor:
        return collectives.ring_reduce_scatter(self, tensor, channel)
