"""Send buffers of a partial allreduce: ranks contribute whole vectors, or their top-k elements."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from repro.fabric.base import Fabric
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.compressed import CompressedAllreduce
from repro.fabric.sparse.collectives import topk_allgather
from repro.fabric.sparse.gradients import EMPTY, Sparse, Wire
from repro.fabric.sparse.selection import select_topk


class SendBuffer(ABC):
    """A send buffer (n,), which accumulates gradients until a round takes them, and the reduction over ranks.

    `add` and `take` are called with the lock of the partial allreduce held, `reduce` without it. A received tensor has
    shape (n + flags,): the sum of the contributions, then the sum of the ranks' flags.
    """

    def __init__(self, fabric: Fabric, n: int, flags: int, device: torch.device):
        self.fabric, self.n, self.flags = fabric, n, flags
        self.send = torch.zeros(n + flags, device=device)

    @abstractmethod
    def add(self, gradient: torch.Tensor) -> None:
        """Add a gradient (n,) to the send buffer."""

    @abstractmethod
    def take(self, flags: torch.Tensor, null: bool) -> torch.Tensor:
        """Move a round's contribution out of the send buffer. null: no gradient was added since the last round."""

    @abstractmethod
    def reduce(self, contribution: torch.Tensor) -> torch.Tensor:
        """The sum over ranks, (n + flags,), the same bits on all. Blocks; all ranks call it."""

    @abstractmethod
    def pending(self) -> torch.Tensor:
        """The content (n,) that no round has taken yet."""

    def release(self, received: torch.Tensor) -> None:
        """Return a received tensor for reuse."""

    def state_dict(self) -> dict:
        return {"send": self.pending().clone()}

    def load_state_dict(self, state: dict) -> None:
        self.send.zero_()
        self.send[: self.n].copy_(state["send"])


class Whole(SendBuffer):
    """A round takes the whole send buffer, which is empty afterwards (Figure 7), and sums it by any allreduce."""

    def __init__(
        self, fabric: Fabric, n: int, flags: int, device: torch.device, algorithm: str = "recursive_doubling",
        codec: str = "none", channel: int = 0, seed: int = 0,
    ):  # fmt: skip
        super().__init__(fabric, n, flags, device)
        # a codec would round the flags, so they travel separately
        self.apart = codec != "none"
        # on the host: a late rank takes part during its computation, which must not delay the others
        self.allreduce = CompressedAllreduce(
            fabric, n if self.apart else n + flags, codec, algorithm, channel, seed=seed, resource="host"
        )
        # Unless the number of ranks is a power of two, the paced rank that gets the sum last would be last in the next
        # round too, and miss it even if all ranks are equally fast.
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
        contribution, self.send = self.send, self.free.pop() if self.free else torch.empty_like(self.send)
        if self.empty:
            contribution[: self.n].zero_()  # G_null
        contribution[self.n :].copy_(flags)
        self.empty = True
        return contribution

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
    """A round takes the k largest elements of the send buffer; the rest stays for later rounds (not in the paper).

    So the send buffer holds eager-SGD's stale gradients and gTop-k's residual. A rank without a new gradient since the
    last round contributes nothing, even if its residual is not empty.
    """

    def __init__(self, fabric: Fabric, n: int, flags: int, device: torch.device, k: int, channel: int = 0):
        super().__init__(fabric, n, flags, device)
        self.k, self.channel, self.wire = k, channel, Wire(k)
        self.select_s = fabric.costs.seconds("select/exact", 4 * n)
        self.nothing = Sparse(torch.zeros(k, device=device), torch.full((k,), EMPTY, dtype=torch.int32, device=device))

    def add(self, gradient: torch.Tensor) -> None:
        self.send[: self.n].add_(gradient)

    def take(self, flags: torch.Tensor, null: bool) -> torch.Tensor:
        self.own_flags = flags.to(self.send.device)
        if null:
            return self.wire.pack(self.nothing)
        vector = self.send[: self.n]
        with self.fabric.compute(self.select_s, "host"):
            chosen = select_topk(vector, self.k)
            if not vector.is_meta:
                chosen.clear(vector)
        return self.wire.pack(chosen)

    def reduce(self, contribution: torch.Tensor) -> torch.Tensor:
        parts = topk_allgather(self.fabric, contribution, self.wire, self.channel)
        received = torch.zeros_like(self.send)
        for part in parts:
            part.add_to(received[: self.n])
        received[self.n :].copy_(self.own_flags)
        collectives.recursive_doubling_allreduce(self.fabric, received[self.n :], self.channel)
        return received

    def pending(self) -> torch.Tensor:
        return self.send[: self.n]
