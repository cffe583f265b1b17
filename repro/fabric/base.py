"""The interface of fabrics: how the ranks of a run communicate, compute and wait."""

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
# capability -> the one fabric that has it: access to its library, for strategies that call the library directly
LIBRARIES = {"torch.distributed": "torch", "mpi": "mpi"}
NCCL = frozenset({"threads", "torch.distributed"})  # the capabilities of the fabric on NCCL
GLOO = NCCL | {"tags", "any_source"}
DEFAULT_TIMEOUT_S = 120.0


class FabricError(FaultError):
    """A rank was lost, a wait timed out, or a message had the wrong size; names rank, peer, operation and seconds."""


def timeout_error(
    rank: int, task: str, what: object, seconds: float, others: Iterable[tuple[str, object, float]] = ()
) -> FabricError:
    """The error of a task that waited too long for `what`.

    others: (name, what it waits for, seconds) of the rank's other waiting tasks, one of which may block this one.
    """
    also = "".join(f"; {name} has waited {waited:.3g} s for: {other}" for name, other, waited in others)
    return FabricError(f"rank {rank} ({task}): {what}: nothing after {seconds:g} s{also}")


class TaskCancelled(BaseException):
    """Raised by a task's next blocking call after `Task.cancel()`; not an Exception, so that no handler swallows it."""


class Work(ABC):
    """A transfer or collective in progress."""

    __slots__ = ()
    source: int | None = None  # the sender, after a receive

    @abstractmethod
    def wait(self, timeout: float | None = None) -> None:
        """Block until done; FabricError after `timeout` seconds (None: the fabric's limit)."""

    @abstractmethod
    def done(self) -> bool:
        """Whether the work is finished. Needs the capability "test"."""

    @abstractmethod
    def cancel(self) -> None:
        """Withdraw a receive that no send has matched yet. Needs the capability "cancel"."""


class DoneWork(Work):
    """Work that is finished from the start."""

    def wait(self, timeout: float | None = None) -> None:
        return None

    def done(self) -> bool:
        return True

    def cancel(self) -> None:
        return None


class Task(ABC):
    """A concurrent thread of one rank, for example for communication."""

    name: str

    @abstractmethod
    def join(self, timeout: float | None = None) -> Any:
        """Wait for the task to end; return its function's result, or raise its error."""

    @abstractmethod
    def cancel(self) -> None:
        """Make the task's next blocking fabric call raise TaskCancelled."""


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
    """An unbounded first-in, first-out queue between the tasks of one rank."""

    @abstractmethod
    def put(self, item: Any) -> None: ...

    @abstractmethod
    def get(self, timeout: float | None = None) -> Any: ...

    @abstractmethod
    def __len__(self) -> int: ...


class Fabric(ABC):
    """One rank's end of the network.

    `capabilities` is a subset of {"threads", "tags", "any_source", "test", "cancel", "sizes"} and LIBRARIES: what
    strategies and testbeds may require beyond send, receive, collectives and barriers. A fabric without "tags" (NCCL)
    ignores them; `batch` says which order holds there. Payloads are contiguous tensors; with "sizes" also tensors on
    the meta device, which have a size but no contents. A receive buffer has exactly the message's number of bytes.
    """

    name: ClassVar[str]
    capabilities: frozenset[str]
    native_by_default: ClassVar[bool] = False  # strategies use the library's allreduce unless configured otherwise
    progresses: ClassVar[bool] = False  # transfers progress while no task of the rank waits for them
    rank: int
    size: int
    costs: Costs
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    bandwidth_Bps: float | None = None  # of a rank's link, if known without measuring
    auto: Crossover | None = None  # the meaning of the allreduce "auto", after `settle_auto`
    bytes_sent: int = 0  # payload bytes that this rank sent on all channels but CONTROL

    # time and the rank's own computation
    @abstractmethod
    def now(self) -> float:
        """The calling task's time in seconds on this fabric's clock."""

    @abstractmethod
    def sleep(self, seconds: float) -> None: ...

    def compute(self, seconds: float | None = None, resource: str | None = "device") -> AbstractContextManager[None]:
        """A context for computation on the resource "device" or "host" (None: on neither).

        In real time its body runs as usual. In virtual time it takes `seconds`, and tasks on one resource take turns.
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
        """Blocking receive; returns the sender's rank."""
        work = self.irecv(tensor, source, tag, channel)
        work.wait()
        return source if work.source is None else work.source

    def batch(self, channel: int = MAIN) -> AbstractContextManager[None]:
        """A context whose sends and receives on this channel proceed concurrently.

        Without the capability "tags" a rank's transfers on a channel otherwise run one after the other, in the order in
        which they were started, and each ends when its peer has reached it: ranks that all receive first, or all send
        first, would deadlock. On other fabrics it has no effect.
        """
        return nullcontext()

    def sendrecv(
        self, outgoing: torch.Tensor, to: int, incoming: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN
    ) -> tuple[Work, Work]:
        """Start a send to one rank and a receive from another (or the same); returns (the receive, the send).

        All ranks may do so at once without deadlock.
        """
        with self.batch(channel):
            return self.irecv(incoming, source, tag, channel), self.isend(outgoing, to, tag, channel)

    def wait_any(self, works: Sequence[Work], timeout: float | None = None) -> int:
        """Wait until a work is finished; returns the lowest index of a finished one. Needs the capability "test"."""
        raise FabricError(f"fabric {self.name} cannot wait for any of several transfers (no capability 'test')")

    def wait_all(self, works: Sequence[Work], timeout: float | None = None) -> None:
        """Wait for several works in order; the time limit (None: the fabric's) holds for each."""
        for work in works:
            work.wait(timeout)

    def wait_idle(self, work: Work) -> None:
        """Wait without a time limit for a message that may come late, at little cost to this rank's other tasks.

        A fabric that polls does so less often the longer nothing arrives.
        """
        work.wait(timeout=float("inf"))

    # collectives: by the fabric's library unless an algorithm is named; all ranks call them in the same order
    @abstractmethod
    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        """Sum over ranks in place, by the fabric's library, in an unspecified order of summation."""

    @abstractmethod
    def broadcast(self, tensor: torch.Tensor, root: int = 0, channel: int = MAIN) -> None: ...

    @abstractmethod
    def allgather(self, tensor: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
        """Every rank's tensor in rank order; shape and type are the same on all ranks."""

    @abstractmethod
    def barrier(self, channel: int = MAIN) -> None: ...

    @abstractmethod
    def allreduce(
        self, tensor: torch.Tensor, op: str = "sum", channel: int = MAIN, async_: bool = False, algorithm: str = "auto"
    ) -> Work:
        """Reduce in place over all ranks; `op` is "sum" or "mean".

        algorithm: "native" (the library's), a name in `collectives.ALLREDUCE` (a fixed order of summation; the call
        blocks, so run it in a task to overlap it), or "auto": the choice of `settle_auto` for this size. Before
        `settle_auto`, and with `async_`, "auto" is "native", the only one that progresses by itself.
        """

    @abstractmethod
    def settle_auto(self) -> None:
        """Choose, once, what "auto" means (`repro.fabric.collectives.algorithms`); all ranks call it, with no other
        communication in progress."""

    @abstractmethod
    def reduce_scatter(self, tensor: torch.Tensor, channel: int = MAIN) -> torch.Tensor:
        """The sum over ranks of this rank's chunk (`collectives.chunks`); overwrites the rest of `tensor`."""

    # groups and tasks
    @abstractmethod
    def subgroup(self, ranks: Sequence[int]) -> Fabric | None:
        """A fabric over `ranks`, renumbered in that order; None on the other ranks. All ranks call it."""

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
        """The name of the calling task; "main" for the rank's main thread."""

    # control plane, for the harness, outside the training clock
    @abstractmethod
    def exchange(self, obj: Any) -> list[Any]:
        """Every rank's (picklable) object in rank order. It takes no virtual time; do not use it inside a step."""

    def observed(self, train_s: float) -> dict[str, Any]:
        """This rank's own measurements during `train_s` seconds of training, for the record of the run; empty if none.

        TooBusy if they show that the run's times are invalid.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        """What a rank that resumes needs of its fabric, as plain data."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`."""

    @abstractmethod
    def close(self) -> None: ...
