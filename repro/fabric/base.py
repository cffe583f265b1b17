"""The fabric: how ranks talk, compute and wait. Strategies and collectives are written against this alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import torch

from repro.core.errors import FaultError
from repro.fabric.collectives.auto import Crossover
from repro.fabric.costs import Costs

ANY_SOURCE = -1
# Channels separate the traffic of concurrent threads of one rank; each has its own communicator or process group.
MAIN, BACKGROUND, CONTROL, SIGNALS = 0, 1, 2, 3
CHANNELS = 4
# capabilities of one fabric alone: the library that it is made of, for strategies that hand their exchange to it
LIBRARIES = {"torch.distributed": "torch", "mpi": "mpi"}
NCCL = frozenset({"threads", "torch.distributed"})  # what its fabric is capable of
DEFAULT_TIMEOUT_S = 120.0


class FabricError(FaultError):
    """A rank was lost, a wait passed its limit, or a message did not fit: names rank, peer, operation, seconds."""


def overdue(
    rank: int, task: str, what: object, seconds: float, others: Iterable[tuple[str, object, float]] = ()
) -> FabricError:
    """Of a task's wait that passed its limit. others: name, what it waits for and seconds so far of each task of the
    rank that waits too; one of them may be what holds this one up."""
    also = "".join(f"; {name} has waited {waited:.3g} s for: {wanted}" for name, wanted, waited in others)
    return FabricError(f"rank {rank} ({task}): {what}: nothing after {seconds:g} s{also}")


class TaskCancelled(BaseException):
    """Raised in a task at its next blocking call after `Task.cancel()`; no Exception, so that nothing eats it."""


class Work(ABC):
    """A transfer or collective under way."""

    __slots__ = ()
    source: int | None = None  # of a finished receive: who sent it

    @abstractmethod
    def wait(self, timeout: float | None = None) -> None:
        """Block until done (seconds; None: the fabric's limit). Raises FabricError when the limit passes."""

    @abstractmethod
    def done(self) -> bool:
        """Whether `wait` would return at once. Needs the capability "test"."""

    @abstractmethod
    def cancel(self) -> None:
        """Withdraw a receive that nothing has matched yet. Needs the capability "cancel"."""


class DoneWork(Work):
    """Something that was finished when it was asked for."""

    def wait(self, timeout: float | None = None) -> None:
        return None

    def done(self) -> bool:
        return True

    def cancel(self) -> None:
        return None


class Task(ABC):
    """A communication or progress thread of one rank."""

    name: str

    @abstractmethod
    def join(self, timeout: float | None = None) -> Any:
        """Wait for the end and return what the function returned; its error is raised here."""

    @abstractmethod
    def cancel(self) -> None:
        """Ask the task to stop: its next blocking fabric call raises TaskCancelled."""


class Event(ABC):
    """A flag that tasks of one rank wait for."""

    @abstractmethod
    def set(self) -> None: ...

    @abstractmethod
    def clear(self) -> None: ...

    @abstractmethod
    def is_set(self) -> bool: ...

    @abstractmethod
    def wait(self, timeout: float | None = None) -> None: ...


class Queue(ABC):
    """First in, first out, between the tasks of one rank; unbounded."""

    @abstractmethod
    def put(self, item: Any) -> None: ...

    @abstractmethod
    def get(self, timeout: float | None = None) -> Any: ...

    @abstractmethod
    def __len__(self) -> int: ...


class Fabric(ABC):
    """One rank's end of the network.

    `capabilities` is a subset of {"threads", "tags", "any_source", "test", "cancel", "sizes"} and LIBRARIES: what a
    strategy or a testbed may ask of this fabric beyond send, receive, collectives and barriers. Without "tags" (NCCL)
    tags count for nothing and `batch` says what holds. Message payloads are
    contiguous tensors, with "sizes" also those on the meta device, which are sizes without contents; a receive buffer
    has exactly the message's number of bytes.
    """

    name: ClassVar[str]
    capabilities: frozenset[str]
    native_by_default: ClassVar[bool] = False  # strategies whose allreduce is not chosen take the library's
    progresses: ClassVar[bool] = False  # transfers go on by themselves, also while nobody of the rank waits for them
    rank: int
    size: int
    costs: Costs
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    bandwidth_Bps: float | None = None  # of a rank's link, where it is known without measuring
    auto: Crossover | None = None  # what the allreduce "auto" is, once `settle_auto` has found it
    bytes_sent: int = 0  # payload bytes that this rank handed to the network on all channels but CONTROL

    # time and the rank's own computation
    @abstractmethod
    def now(self) -> float:
        """Seconds on this fabric's clock, of the calling task."""

    @abstractmethod
    def sleep(self, seconds: float) -> None: ...

    def compute(self, seconds: float | None = None, resource: str | None = "device") -> AbstractContextManager[None]:
        """A stretch of this rank's own work on "device" or "host" (None: on neither).

        In real time the body simply runs. In virtual time it takes `seconds`, and two tasks on one resource take turns.
        """
        return nullcontext()

    # point to point
    @abstractmethod
    def isend(self, tensor: torch.Tensor, to: int, tag: int = 0, channel: int = MAIN) -> Work: ...

    @abstractmethod
    def irecv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> Work: ...

    def send(self, tensor: torch.Tensor, to: int, tag: int = 0, channel: int = MAIN) -> None:
        self.isend(tensor, to, tag, channel).wait()

    def recv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> int:
        """Blocking receive; returns the rank that sent it."""
        work = self.irecv(tensor, source, tag, channel)
        work.wait()
        return source if work.source is None else work.source

    def batch(self, channel: int = MAIN) -> AbstractContextManager[None]:
        """Sends and receives that are begun inside, on this channel, go on side by side.

        Without the capability "tags" a rank's transfers on a channel are otherwise one after the other, in the order in
        which they were begun, and each is over when its other end has come to it: ranks that all receive first, or all
        send first, would wait for ever. Elsewhere it changes nothing.
        """
        return nullcontext()

    def sendrecv(
        self, outgoing: torch.Tensor, to: int, incoming: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN
    ) -> tuple[Work, Work]:
        """Begin to send to one rank and to receive from another (or the same), as all ranks do at once on every fabric:
        (the receive, the send)."""
        with self.batch(channel):
            return self.irecv(incoming, source, tag, channel), self.isend(outgoing, to, tag, channel)

    def wait_any(self, works: Sequence[Work], timeout: float | None = None) -> int:
        """The index of a finished work, the lowest if several are. Needs the capability "test"."""
        raise FabricError(f"fabric {self.name} cannot wait for any of several transfers (no capability 'test')")

    def wait_all(self, works: Sequence[Work], timeout: float | None = None) -> None:
        """Wait for each of several works (seconds for each; None: the fabric's limit); raises what the first raises."""
        for work in works:
            work.wait(timeout)

    def wait_idle(self, work: Work) -> None:
        """Wait, without a limit, for a message that may be long in coming, at little cost to this rank's other tasks.

        A fabric that polls looks the less often the longer nothing comes.
        """
        work.wait(timeout=float("inf"))

    # collectives: the fabric's own unless an algorithm is named; every rank of the fabric calls them in the same order
    @abstractmethod
    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        """Sum over ranks, in place, by whatever the fabric's library does; promises no order of summation."""

    @abstractmethod
    def broadcast(self, tensor: torch.Tensor, root: int = 0, channel: int = MAIN) -> None: ...

    @abstractmethod
    def allgather(self, tensor: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
        """Every rank's tensor (same shape and type everywhere), in rank order."""

    @abstractmethod
    def barrier(self, channel: int = MAIN) -> None: ...

    @abstractmethod
    def allreduce(
        self,
        tensor: torch.Tensor,
        op: str = "sum",
        channel: int = MAIN,
        async_: bool = False,
        algorithm: str = "auto",
    ) -> Work:
        """Reduce in place over all ranks. `op`: "sum" or "mean". `algorithm`: "native" (the fabric's own), a name in
        `collectives.ALLREDUCE`, which has a fixed order of summation and blocks until it is done (start it on a task
        of its own to overlap it), or "auto": what `settle_auto` has found for such a size; the fabric's own before
        that, and with `async_`, where it alone goes on by itself."""

    @abstractmethod
    def settle_auto(self) -> None:
        """Find out, once, what "auto" is (`repro.fabric.collectives.crossover`); every rank calls it, nothing else
        under way."""

    @abstractmethod
    def reduce_scatter(self, tensor: torch.Tensor, channel: int = MAIN) -> torch.Tensor:
        """The sum over ranks of this rank's chunk (`collectives.chunks`); the rest of `tensor` becomes scratch."""

    # groups, tasks and what they wait on
    @abstractmethod
    def subgroup(self, ranks: Sequence[int]) -> Fabric | None:
        """A fabric over some of the ranks, renumbered in the order given; None on the others. All ranks call it."""

    @abstractmethod
    def spawn(self, fn: Callable[[], Any], name: str = "background") -> Task: ...

    @abstractmethod
    def event(self) -> Event: ...

    @abstractmethod
    def queue(self) -> Queue: ...

    @abstractmethod
    def lock(self) -> AbstractContextManager: ...

    @abstractmethod
    def current_task(self) -> str:
        """The name of the calling task; "main" for the rank's own line."""

    # control plane: for the harness, outside the training clock
    @abstractmethod
    def exchange(self, obj: Any) -> list[Any]:
        """Every rank's (picklable) object, in rank order. Takes no virtual time; not for use inside a step."""

    def observed(self, train_s: float) -> dict[str, Any]:
        """What this rank's end has seen of itself in so many seconds of training, for the record of the run; empty
        where there is nothing to say. FabricError where it spoils the run's times."""
        return {}

    @abstractmethod
    def close(self) -> None: ...
