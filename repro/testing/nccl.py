"""NCCL's rules on a CPU: virtual ranks whose messages are matched as NCCL matches them.

An order that would hang there is an error here, which names ranks, peers and operations.

What NCCL does not promise, and MPI and gloo do (NCCL's user guide, "Point-to-point communication" and "Group calls";
NVIDIA/nccl#479; torch's `ProcessGroupNCCL`):

- A communicator (here: a channel of a group of ranks) is one stream on each rank: its operations run one after the
  other, in the order in which they were begun, however many peers they have. Those of one `batch` run side by side.
- Rendezvous: a send is over when its receive has run, be it ever so short. It reads its buffer then, not before.
- There are no tags: between two ranks the first send meets the first receive.
- Where two ranks first use a communicator in a direction, or all of them for a collective, whoever comes first waits in
  the very call for the others, while they open the connection.
- No any-source; nothing can be tested or cancelled.

Waiting blocks the task. On a GPU it makes the task's stream wait, whose next operations wait with it: the same order.
What this does not see: kernels of several communicators at once that do not all fit on a GPU, and data that is read
before the event that says it is there.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from repro.core.not_none import not_none
from repro.fabric.base import ANY_SOURCE, CONTROL, LIBRARIES, MAIN, NCCL, DoneWork, Fabric, FabricError, Work
from repro.fabric.collectives.algorithms import FabricWithAlgorithms
from repro.fabric.collectives.blocks import chunks
from repro.fabric.costs import REAL_TIME, Costs
from repro.fabric.virtual.fabric import Network, VirtualFabric, run
from repro.fabric.virtual.messages import VirtualWork

SEND, RECEIVE = "send to", "receive from"


@dataclass(eq=False)
class Part:
    """A direction of an operation: what is sent to, or received from, a peer."""

    kind: str
    peer: int
    tensor: torch.Tensor
    named: str  # the peer, by its rank in the run
    met: bool = False  # with its other end

    def __str__(self) -> str:
        return f"{self.kind} {self.named}"


@dataclass(eq=False)
class Together:
    """A collective: its name with all that the ranks must agree in, and what becomes of everybody's tensors here."""

    name: str
    tensor: torch.Tensor
    take: Callable[[list[torch.Tensor]], None]
    met: bool = False

    def __str__(self) -> str:
        return self.name


class Operation(VirtualWork):
    """One place in a rank's stream: a send, a receive, a batch of them, or a collective."""

    __slots__ = ("collective", "communicator", "left", "line", "parts", "rank")

    def __init__(self, fabric: NcclRules, communicator: Communicator, collective: Together | None = None):
        super().__init__(fabric)
        self.rank, self.communicator, self.collective = fabric.rank, communicator, collective
        self.parts: list[Part] = []
        self.left = 0  # parts that are not over
        self.line = fabric.current_task()

    @property
    def what(self) -> str:
        return " with ".join(map(str, self.parts)) or str(self.collective)

    def __str__(self) -> str:
        streams = self.communicator.streams
        stream = streams[self.rank]
        text = f"{self.what} ({self.communicator.name})"
        if self not in stream:
            return text
        if stream[0] is not self:
            return f"{text}, behind {stream[0].what} in the stream"
        names = self.communicator.ranks
        peers = sorted({part.peer for part in self.parts if not part.met}) or range(len(names))
        stands = [
            f"rank {names[peer]}'s stands at {streams[peer][0].what if streams[peer] else 'its end'}"
            for peer in peers
            if peer != self.rank
        ]
        return f"{text}, first in the stream, while {', '.join(stands)}"


class Begun(Work):
    """What is handed out for an operation: nobody can ask whether it is over."""

    def __init__(self, operation: Operation):
        self.operation = operation

    def wait(self, timeout: float | None = None) -> None:
        self.operation.wait(timeout)

    def done(self) -> bool:
        raise FabricError("fabric nccl cannot test a transfer (no capability 'test')")

    def cancel(self) -> None:
        raise FabricError("fabric nccl cannot cancel a transfer (no capability 'cancel')")


class Meeting(VirtualWork):
    """The first use of a communicator between some ranks: over when all of them have come to it."""

    __slots__ = ("came", "communicator", "needed")

    def __init__(self, fabric: NcclRules, communicator: Communicator, needed: int):
        super().__init__(fabric)
        self.communicator, self.needed = communicator, needed
        self.came: dict[int, Operation] = {}

    def __str__(self) -> str:
        """Of the running task's rank, where one is to be named."""
        said = [f"rank {self.communicator.ranks[rank]}: {operation.what}" for rank, operation in self.came.items()]
        return f"the other end to open a connection ({self.communicator.name}; there is {', '.join(said)})"


@dataclass
class Communicator:
    """ranks: of the run. streams: place among them -> operations that are not over, oldest first, which alone runs."""

    name: str
    ranks: tuple[int, ...]
    streams: dict[int, deque[Operation]] = field(default_factory=lambda: defaultdict(deque))
    meetings: dict[Any, Meeting] = field(default_factory=dict)


class NcclRules(VirtualFabric):
    """A fabric of torch.distributed with NCCL, as far as a strategy sees it. The control plane is gloo's there."""

    name = "nccl"
    capabilities = NCCL - LIBRARIES.keys()
    progresses = True  # but not `native_by_default`: what is held to the rules are the algorithms of strategies

    # none of what the virtual fabric does at once for all ranks
    allreduce, wait_all, wait_any = FabricWithAlgorithms.allreduce, Fabric.wait_all, Fabric.wait_any

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.communicators: dict[Any, Communicator] = vars(self.world).setdefault("communicators", {})
        self.batches: dict[tuple[str, int], Operation] = {}  # open, by task and channel

    def communicator(self, channel: int) -> Communicator:
        key = self.group, channel
        if key not in self.communicators:
            of = "" if self.group == 0 else f" of ranks {', '.join(map(str, self.ranks))}"
            self.communicators[key] = Communicator(f"channel {channel}{of}", self.ranks)
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
            raise FabricError(f"rank {self.rank}: receive from any rank: NCCL has no such thing")
        return self._part(Part(RECEIVE, source, tensor.detach(), f"rank {self.ranks[source]}"), channel)

    def _part(self, part: Part, channel: int) -> Work:
        if not part.tensor.numel():
            return DoneWork()  # an empty message is none
        operation = self.batches.get((self.current_task(), channel))
        if operation is not None:
            operation.parts.append(part)
            return Begun(operation)
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
            self._meet(operation, pair, 2)
        if operation.collective:
            self._meet(operation, "all", self.size)
        for meeting in [m for m in communicator.meetings.values() if me in m.came and not m.finished]:
            meeting.wait()
        stream = communicator.streams[me]
        if stream and (other := stream[-1]).line != operation.line:
            raise FabricError(
                f"rank {me}: tasks {other.line} and {operation.line} have {other.what} and {operation.what} under way "
                f"at once ({communicator.name}): which is first is chance, and NCCL matches by it"
            )
        operation.left = max(1, len(operation.parts))
        stream.append(operation)
        self._run(communicator, me)

    def _meet(self, operation: Operation, who: Any, needed: int) -> None:
        communicator = operation.communicator
        meeting = communicator.meetings.setdefault(who, Meeting(self, communicator, needed))
        meeting.came[self.rank] = operation
        if len(meeting.came) == needed and not meeting.finished:
            meeting.finish()

    def _run(self, communicator: Communicator, rank: int) -> None:
        """An operation has become the first in a rank's stream: what it can meet now, it meets."""
        streams = communicator.streams
        operation = streams[rank][0]
        if operation.collective:
            heads = [streams[other][0] for other in range(self.size) if streams[other]]
            if len(heads) == self.size and all(head.collective and not head.collective.met for head in heads):
                self._run_together(communicator, heads)
            return
        for part in operation.parts:
            theirs = streams[part.peer][0] if streams[part.peer] else None
            for other in theirs.parts if theirs else ():
                if not (part.met or other.met) and other.peer == rank and other.kind != part.kind:
                    self._transfer(communicator, (operation, part), (theirs, other))

    def _transfer(self, communicator: Communicator, one: tuple, two: tuple) -> None:
        (sender, sent), (receiver, received) = (one, two) if one[1].kind == SEND else (two, one)
        if sent.tensor.nbytes != received.tensor.nbytes:
            self.scheduler.fail(
                FabricError(
                    f"rank {receiver.rank}: {received} ({communicator.name}) expects {received.tensor.nbytes} bytes, "
                    f"and the first that rank {sender.rank} has for it are {sent.tensor.nbytes}"
                )
            )
            return
        sent.met = received.met = True

        def over() -> None:
            if not sent.tensor.is_meta:
                received.tensor.view(-1).view(torch.uint8).copy_(sent.tensor.contiguous().view(-1).view(torch.uint8))
            for operation in (sender, receiver):
                self._less(communicator, operation)

        self._later(sent.tensor.nbytes, over)

    def _run_together(self, communicator: Communicator, heads: list[Operation]) -> None:
        collectives = [not_none(head.collective) for head in heads]
        first = heads[0]
        for collective in collectives:
            collective.met = True
        if other := next((head for head in heads if head.what != first.what), None):
            said = f"rank {other.rank} has come to {other.what} ({communicator.name}), and rank {first.rank}"
            self.scheduler.fail(FabricError(f"{said} to {first.what}"))
            return

        def over() -> None:
            tensors = [collective.tensor.clone() for collective in collectives]
            for head, collective in zip(heads, collectives):
                if not collective.tensor.is_meta:
                    collective.take(tensors)
                self._less(communicator, head)

        self._later(collectives[0].tensor.nbytes, over)

    def _later(self, nbytes: int, over: Callable[[], None]) -> None:
        network = self.world.network
        self.scheduler.at(self.scheduler.now + network.alpha + nbytes * network.beta, self.rank, over)

    def _less(self, communicator: Communicator, operation: Operation) -> None:
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
        self, name: str, tensor: torch.Tensor, take: Callable[[list[torch.Tensor]], None], channel: int
    ) -> Work:
        said = f"{name} of {tensor.nbytes} bytes"
        operation = Operation(self, self.communicator(channel), Together(said, tensor.detach(), take))
        self._begin(operation)
        return Begun(operation)

    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        def take(tensors: list[torch.Tensor]) -> None:
            """In a ring's order, so that bits can be compared with those of other fabrics."""
            parts = [chunks(one.view(-1), self.size) for one in tensors]
            for block, total in enumerate(chunks(tensor.detach().view(-1), self.size)):
                total.copy_(parts[block][block])
                for step in range(1, self.size):
                    total.add_(parts[(block + step) % self.size][block])

        self.bytes_sent += 2 * (self.size - 1) * tensor.nbytes // self.size
        return self._collective("allreduce", tensor, take, channel)

    def broadcast(self, tensor: torch.Tensor, root: int = 0, channel: int = MAIN) -> None:
        def take(tensors: list[torch.Tensor]) -> None:
            tensor.detach().copy_(tensors[root])

        if self.rank == root:
            self.bytes_sent += (self.size - 1) * tensor.nbytes
        self._collective(f"broadcast from rank {root}", tensor, take, channel).wait()

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
    """As `virtual.run`; FabricError also where something is left in a stream at the end, which nobody waited for."""
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
        raise FabricError(f"left behind at the end: {left[0]}")
    return results
