"""What a rank gives to the rounds of a partial allreduce, and how they add it up: whole vectors, or their top-k."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from repro.fabric.base import Fabric
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.compressed import CompressedAllreduce
from repro.fabric.sparse.collectives import topk_allgather
from repro.fabric.sparse.gradients import EMPTY, Sparse, Wire
from repro.fabric.sparse.selection import select


class SendBuffer(ABC):
    """A send buffer (n,), in which gradients add up until a round takes them, and the sum over ranks.

    `add` and `take` are called with the lock of the partial allreduce held, `reduce` outside of it. A received tensor
    is (n + flags,): the sum of the contributions, then the sum of what the ranks said of theirs.
    """

    def __init__(self, fabric: Fabric, n: int, flags: int, device: torch.device):
        self.fabric, self.n, self.flags = fabric, n, flags
        self.send = torch.zeros(n + flags, device=device)

    @abstractmethod
    def add(self, gradient: torch.Tensor) -> None:
        """Add a gradient (n,) to the send buffer."""

    @abstractmethod
    def take(self, flags: torch.Tensor, null: bool) -> torch.Tensor:
        """The contribution to a round, out of the send buffer; `null`: no gradient has come since the last."""

    @abstractmethod
    def reduce(self, contribution: torch.Tensor) -> torch.Tensor:
        """The sum over ranks, (n + flags,), the same bits on each. Blocks; all ranks call it."""

    @abstractmethod
    def pending(self) -> torch.Tensor:
        """What no round has taken yet, (n,)."""

    def release(self, received: torch.Tensor) -> None:
        """A received tensor that nobody reads any more."""

    def state_dict(self) -> dict:
        return {"send": self.pending().clone()}

    def load_state_dict(self, state: dict) -> None:
        self.send.zero_()
        self.send[: self.n].copy_(state["send"])


class Whole(SendBuffer):
    """The whole sum goes into the round, by any allreduce; the send buffer is empty then (Figure 7)."""

    def __init__(
        self,
        fabric: Fabric,
        n: int,
        flags: int,
        device: torch.device,
        algorithm: str = "recursive_doubling",
        codec: str = "none",
        channel: int = 0,
        seed: int = 0,
    ):
        super().__init__(fabric, n, flags, device)
        # without a codec what the ranks say travels in the same messages
        self.apart = codec != "none"
        # on the host: a late rank takes part in the middle of its computation, which must not make the others wait
        self.allreduce = CompressedAllreduce(
            fabric, n if self.apart else n + flags, codec, algorithm, channel, seed=seed, resource="host"
        )
        # Off powers of two the ranks do not pace each other: the one that has the sum last comes last to the next
        # round, and may not come in time for it however level they are.
        self.unpaced = algorithm == "recursive_doubling"
        self.channel, self.empty = channel, True
        self.free: list[torch.Tensor] = []

    def add(self, gradient: torch.Tensor) -> None:
        if self.empty:
            self.send[: self.n].copy_(gradient)
        else:
            self.send[: self.n].add_(gradient)
        self.empty = False

    def take(self, flags: torch.Tensor, null: bool) -> torch.Tensor:
        taken, self.send = self.send, self.free.pop() if self.free else torch.empty_like(self.send)
        if self.empty:
            taken[: self.n].zero_()  # G_null
        taken[self.n :].copy_(flags)
        self.empty = True
        return taken

    def reduce(self, contribution: torch.Tensor) -> torch.Tensor:
        if self.unpaced:
            collectives.recursive_doubling_allreduce(self.fabric, contribution, self.channel, paced=False)
            return contribution
        vector = contribution[: self.n] if self.apart else contribution
        blocks = self.allreduce.compress(vector)
        self.allreduce.decompress(self.allreduce.reduce(blocks), vector)
        if self.apart:
            collectives.recursive_doubling_allreduce(self.fabric, contribution[self.n :], self.channel)
        return contribution

    def pending(self) -> torch.Tensor:
        return torch.zeros_like(self.send[: self.n]) if self.empty else self.send[: self.n]

    def release(self, received: torch.Tensor) -> None:
        self.free.append(received)

    def state_dict(self) -> dict:
        return super().state_dict() | {"empty": self.empty, "allreduce": self.allreduce.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.empty = state["empty"]
        self.allreduce.load_state_dict(state["allreduce"])


class TopK(SendBuffer):
    """The k largest of the send buffer go into the round, the rest stays there for later ones (beyond the paper).

    So the send buffer is at once what eager-SGD calls the stale gradients and what gTop-k calls the residual. A rank
    without a new gradient since the last round contributes nothing, though its residual is not empty.
    """

    def __init__(self, fabric: Fabric, n: int, flags: int, device: torch.device, k: int, channel: int = 0):
        super().__init__(fabric, n, flags, device)
        self.k, self.channel, self.wire = k, channel, Wire(k)
        self.select_s = fabric.costs.seconds("select/exact", 4 * n)
        self.nothing = Sparse(torch.zeros(k, device=device), torch.full((k,), EMPTY, dtype=torch.int32, device=device))

    def add(self, gradient: torch.Tensor) -> None:
        self.send[: self.n].add_(gradient)

    def take(self, flags: torch.Tensor, null: bool) -> torch.Tensor:
        self.said = flags.to(self.send.device)
        if null:
            return self.wire.pack(self.nothing)
        vector = self.send[: self.n]
        with self.fabric.compute(self.select_s, "host"):
            chosen = select(vector, self.k)
            if not vector.is_meta:
                chosen.clear(vector)
        return self.wire.pack(chosen)

    def reduce(self, contribution: torch.Tensor) -> torch.Tensor:
        parts = topk_allgather(self.fabric, contribution, self.wire, self.channel)
        received = torch.zeros_like(self.send)
        for part in parts:
            part.add_to(received[: self.n])
        received[self.n :].copy_(self.said)
        collectives.recursive_doubling_allreduce(self.fabric, received[self.n :], self.channel)
        return received

    def pending(self) -> torch.Tensor:
        return self.send[: self.n]
