"""NCCL's rules on a CPU: virtual ranks whose messages are matched as NCCL matches them.

An order that would hang with NCCL raises an error here, which names ranks, peers and operations.

NCCL does not guarantee these, which MPI and gloo do (NCCL's user guide, "Point-to-point communication" and "Group
calls"; NVIDIA/nccl#479; torch's `ProcessGroupNCCL`):

- A communicator (here: a channel of a group of ranks) is one stream on each rank: its operations run in the order of
  their start, whatever their peers. Operations of one `batch` run concurrently.
- Rendezvous: a send ends only when its receive has run, however small it is, and reads its buffer only then.
- There are no tags: the first send between two ranks matches the first receive.
- The first use of a communicator between two ranks in one direction, and its first collective, block in the call until
  the other ranks make the same call, to open the connection.
- No any-source; nothing can be tested or cancelled.

Waiting blocks the task. On a GPU it blocks the task's stream, and so its later operations: the same order. Not
detected: kernels of several communicators that do not all fit on a GPU at once, and data that is read before the event
that marks it as complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from repro.core.not_none import not_none
from repro.fabric.base import ANY_SOURCE, CONTROL, LIBRARIES, MAIN, NCCL, DoneWork, Fabric, FabricError, Work
from repro.fabric.collectives.algorithms import FabricWithAlgorithms
from repro.fabric.collectives.blocks import cut_vector
from repro.fabric.costs import REAL_TIME, Costs
from repro.fabric.virtual.fabric import Network, VirtualFabric, run
from repro.testing.nccl_operations import (
    RECEIVE,
    SEND,
    Collective,
    Communicator,
    Operation,
    Part,
    Rendezvous,
    StartedWork,
)


class NcclRules(VirtualFabric):
    """Behaves like torch.distributed with NCCL, whose control plane uses gloo."""

    name = "nccl"
    capabilities = NCCL - LIBRARIES.keys()
    progresses = True  # not `native_by_default`: the strategies' own algorithms are to be checked

    # instead of the virtual fabric's shortcuts
    allreduce, wait_all, wait_any = FabricWithAlgorithms.allreduce, Fabric.wait_all, Fabric.wait_any

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.communicators: dict[Any, Communicator] = vars(self.world).setdefault("communicators", {})
        self.batches: dict[tuple[str, int], Operation] = {}  # open batches by task and channel

    def communicator(self, channel: int) -> Communicator:
        key = self.group, channel
        if key not in self.communicators:
            group = "" if self.group == 0 else f" of ranks {', '.join(map(str, self.ranks))}"
            self.communicators[key] = Communicator(f"channel {channel}{group}", self.ranks)
        return self.communicators[key]

    # point to point
    def isend(self, tensor: torch.Tensor, to: int, tag: int = 0, channel: int = MAIN) -> Work:
        if channel == CONTROL:
            return super().isend(tensor, to, tag, channel)
        self.bytes_sent += tensor.nbytes
        return self._part(Part(SEND, to, tensor.detach(), f"rank {self.ranks[to]}"), channel)

    def irecv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> Work:
        if channel == CONTROL:
            return super().irecv(tensor, source, tag, channel)
        if source == ANY_SOURCE:
            raise FabricError(f"rank {self.rank}: receive from any rank: not supported by NCCL")
        return self._part(Part(RECEIVE, source, tensor.detach(), f"rank {self.ranks[source]}"), channel)

    def _part(self, part: Part, channel: int) -> Work:
        if not part.tensor.numel():
            return DoneWork()  # empty messages are not sent
        operation = self.batches.get((self.current_task(), channel))
        if operation is not None:
            operation.parts.append(part)
            return StartedWork(operation)
        with self.batch(channel):
            return self._part(part, channel)

    @contextmanager
    def batch(self, channel: int = MAIN) -> Iterator[None]:
        place = self.current_task(), channel
        operation = self.batches[place] = Operation(self, self.communicator(channel))
        try:
            yield
        finally:
            del self.batches[place]
        if operation.parts:
            self._begin(operation)

    # the stream
    def _begin(self, operation: Operation) -> None:
        communicator, me = operation.communicator, self.rank
        self.scheduler.check()
        for part in operation.parts:
            pair = (me, part.peer) if part.kind == SEND else (part.peer, me)
            self._rendezvous(operation, pair, 2)
        if operation.collective:
            self._rendezvous(operation, "all", self.size)
        for meeting in [m for m in communicator.rendezvous.values() if me in m.arrived and not m.finished]:
            meeting.wait()
        stream = communicator.streams[me]
        if stream and (other := stream[-1]).task != operation.task:
            raise FabricError(
                f"rank {me}: tasks {other.task} and {operation.task} have {other.what} and {operation.what} under way "
                f"at once ({communicator.name}): their order, by which NCCL matches them, is random"
            )
        operation.left = max(1, len(operation.parts))
        stream.append(operation)
        self._run(communicator, me)

    def _rendezvous(self, operation: Operation, who: Any, needed: int) -> None:
        communicator = operation.communicator
        meeting = communicator.rendezvous.setdefault(who, Rendezvous(self, communicator, needed))
        meeting.arrived[self.rank] = operation
        if len(meeting.arrived) == needed and not meeting.finished:
            meeting.finish()

    def _run(self, communicator: Communicator, rank: int) -> None:
        """Match the first operation of a rank's stream with those counterparts that are first in their streams."""
        streams = communicator.streams
        operation = streams[rank][0]
        if operation.collective:
            heads = [streams[other][0] for other in range(self.size) if streams[other]]
            if len(heads) == self.size and all(head.collective and not head.collective.matched for head in heads):
                self._run_collective(communicator, heads)
            return
        for part in operation.parts:
            theirs = streams[part.peer][0] if streams[part.peer] else None
            for other in theirs.parts if theirs else ():
                if not (part.matched or other.matched) and other.peer == rank and other.kind != part.kind:
                    self._transfer(communicator, (operation, part), (theirs, other))

    def _transfer(self, communicator: Communicator, first: tuple, two: tuple) -> None:
        (sender, sent), (receiver, received) = (first, two) if first[1].kind == SEND else (two, first)
        if sent.tensor.nbytes != received.tensor.nbytes:
            self.scheduler.fail(
                FabricError(
                    f"rank {receiver.rank}: {received} ({communicator.name}) expects {received.tensor.nbytes} bytes, "
                    f"but rank {sender.rank}'s first send to it has {sent.tensor.nbytes}"
                )
            )
            return
        sent.matched = received.matched = True

        def complete() -> None:
            if not sent.tensor.is_meta:
                received.tensor.view(-1).view(torch.uint8).copy_(sent.tensor.contiguous().view(-1).view(torch.uint8))
            for operation in (sender, receiver):
                self._part_done(communicator, operation)

        self._later(sent.tensor.nbytes, complete)

    def _run_collective(self, communicator: Communicator, heads: list[Operation]) -> None:
        collectives = [not_none(head.collective) for head in heads]
        first = heads[0]
        for collective in collectives:
            collective.matched = True
        if other := next((head for head in heads if head.what != first.what), None):
            text = f"rank {other.rank} has reached {other.what} ({communicator.name}), but rank {first.rank}"
            self.scheduler.fail(FabricError(f"{text} has reached {first.what}"))
            return

        def complete() -> None:
            tensors = [collective.tensor.clone() for collective in collectives]
            for head, collective in zip(heads, collectives):
                if not collective.tensor.is_meta:
                    collective.store(tensors)
                self._part_done(communicator, head)

        self._later(collectives[0].tensor.nbytes, complete)

    def _later(self, nbytes: int, complete: Callable[[], None]) -> None:
        network = self.world.network
        self.scheduler.at(self.scheduler.now + network.alpha + nbytes * network.beta, self.rank, complete)

    def _part_done(self, communicator: Communicator, operation: Operation) -> None:
        operation.left -= 1
        if operation.left:
            return
        stream = communicator.streams[operation.rank]
        stream.popleft()
        operation.finish()
        if stream:
            self._run(communicator, operation.rank)

    # collectives: the library's
    def _collective(
        self, name: str, tensor: torch.Tensor, store: Callable[[list[torch.Tensor]], object], channel: int
    ) -> Work:
        name = f"{name} of {tensor.nbytes} bytes"
        operation = Operation(self, self.communicator(channel), Collective(name, tensor.detach(), store))
        self._begin(operation)
        return StartedWork(operation)

    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        def store(tensors: list[torch.Tensor]) -> None:
            """Sum in a ring's order, so that bits equal those of other fabrics."""
            parts = [cut_vector(tensor.view(-1), self.size) for tensor in tensors]
            for block, total in enumerate(cut_vector(tensor.detach().view(-1), self.size)):
                total.copy_(parts[block][block])
                for step in range(1, self.size):
                    total.add_(parts[(block + step) % self.size][block])

        self.bytes_sent += 2 * (self.size - 1) * tensor.nbytes // self.size
        return self._collective("allreduce", tensor, store, channel)

    def broadcast(self, tensor: torch.Tensor, root: int = 0, channel: int = MAIN) -> None:
        if self.rank == root:
            self.bytes_sent += (self.size - 1) * tensor.nbytes
        name = f"broadcast from rank {root}"
        self._collective(name, tensor, lambda tensors: tensor.detach().copy_(tensors[root]), channel).wait()

    def allgather(self, tensor: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
        gathered: list[torch.Tensor] = []
        self.bytes_sent += (self.size - 1) * tensor.nbytes
        self._collective("allgather", tensor, gathered.extend, channel).wait()
        return [part.clone() for part in gathered] or [tensor] * self.size

    def barrier(self, channel: int = MAIN) -> None:
        self._collective("barrier", torch.zeros(1), lambda tensors: None, channel).wait()


def by_nccls_rules(
    size: int, main: Callable[[NcclRules], Any], network: Network, costs: Costs = REAL_TIME
) -> list[Any]:
    """As `virtual.run`; FabricError also if a stream has unfinished operations at the end, for which no task waits."""
    left: list[str] = []

    def one_rank(fabric: NcclRules) -> Any:
        result = main(fabric)
        fabric.exchange(None)
        left.extend(
            f"rank {operation.rank}: {operation}"
            for communicator in fabric.communicators.values()
            for operation in communicator.streams[fabric.rank]
        )
        return result

    results = run(size, one_rank, network, costs, kind=NcclRules)
    if left:
        raise FabricError(f"unfinished at the end: {left[0]}")
    return results
