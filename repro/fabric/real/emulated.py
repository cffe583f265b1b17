"""The emulated fabric: real MPI messages, with time slowed down by `time_factor`.

The shaped network has a fraction of the testbed's rate. This fabric sleeps for latency and computation, longer by the
same factor, and divides its clock by it. In Gupta et al. (NSDI 2006 and 2008), who had the idea, kernels dilate their
clocks; here TCP's timers and this machine's own work (Python, MPI) keep their speed, and count 1 / `time_factor`.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from repro.core.errors import TooBusy
from repro.fabric.base import MAIN, Work
from repro.fabric.costs import Costs
from repro.fabric.real.mpi import LONGEST_SLEEP_S, MpiFabric, MpiWork

PIECE = 4 << 20  # bytes of real memory, all zeros
MAP_FIXED = 0x10  # mmap(2), Linux
FAILED = ctypes.c_void_p(-1).value


class Window:
    """Buffers of any size that share the same 4 MB of memory (Linux).

    Concurrent senders and receivers may use it, because it only ever contains zeros. So a rank that receives 550 MB
    needs no 550 MB, and 32 such ranks fit into memory.
    """

    def __init__(self) -> None:
        self._file = os.memfd_create("messages")
        os.ftruncate(self._file, PIECE)
        self._bytes = np.empty(0, np.uint8)

    def of(self, nbytes: int) -> np.ndarray:
        """A buffer of `nbytes`; earlier buffers stay valid."""
        if nbytes > len(self._bytes):
            self._bytes = self._mapped(max(nbytes, 2 * len(self._bytes)))
        return self._bytes[:nbytes]

    def _mapped(self, nbytes: int) -> np.ndarray:
        """A new address range that maps PIECE again and again.

        It is never unmapped: an MPI request may still use it.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]

        def mapped(at: int | None, length: int, may: int, flags: int, file: int) -> int:
            place = libc.mmap(at, length, may, flags, file, 0)
            if place == FAILED:
                raise OSError(ctypes.get_errno(), f"no window of {nbytes} bytes for messages")
            return place

        pieces = -(-nbytes // PIECE)
        start = mapped(None, pieces * PIECE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
        for piece in range(pieces):
            may = mmap.PROT_READ | mmap.PROT_WRITE
            mapped(start + piece * PIECE, PIECE, may, mmap.MAP_SHARED | MAP_FIXED, self._file)
        return np.ctypeslib.as_array((ctypes.c_uint8 * (pieces * PIECE)).from_address(start))


class DelayedSend(MpiWork):
    """A send that has no MPI request until a `DelayedSender` posts it."""

    def __init__(self, fabric: MpiFabric, send: Callable[[], Any], what: str, data: torch.Tensor):
        super().__init__(fabric, None, what, data)
        self.send = send
        self.failed: Exception | None = None

    def post(self) -> None:
        try:
            self.request = self.send()
        except Exception as error:  # MPI's error, raised in the task that waits for the send
            self.failed = error

    def done(self) -> bool:
        if self.failed:
            raise self.failed
        return self.request is not None and super().done()


class DelayedSender:
    """Posts a rank's sends `delay_s` seconds late, in their order.

    The delay does not occupy the sender's link: p messages of n bytes arrive after delay + p * n * beta.
    """

    def __init__(self, delay_s: float):
        self.delay_s = delay_s
        self._queue: deque[tuple[float, DelayedSend]] = deque()
        self._posted = threading.Condition()
        threading.Thread(target=self._run, name="delayed_sender", daemon=True).start()

    def post(self, message: DelayedSend) -> None:
        with self._posted:
            self._queue.append((time.monotonic() + self.delay_s, message))
            self._posted.notify()

    def _run(self) -> None:
        while True:
            with self._posted:
                while not self._queue:
                    self._posted.wait()
                due, message = self._queue.popleft()
            if (rest := due - time.monotonic()) > 0:
                time.sleep(rest)
            message.post()


LONGEST_PAUSE_S = 10e-6  # between two polls of a rank, in emulated seconds; 33 ranks share two cores
MOST_LATE = 0.01  # total excess of a rank's sleeps, as a share of the training, above which times are invalid


@dataclass(frozen=True)
class Dilation:
    """How emulated time relates to real time.

    slow_down  divides the links' rates, which the shaped network sets
    shrink     divides the sizes of messages without contents, and the slowdown of time
    alpha_s    latency of a message, in emulated seconds
    beta_s     emulated seconds of a byte on a link
    """

    slow_down: float
    shrink: float = 1.0
    alpha_s: float = 0.0
    beta_s: float = 0.0

    @property
    def time_factor(self) -> float:
        """Real seconds for each emulated second."""
        return self.slow_down / self.shrink


@dataclass
class Shared:
    """State that all groups of a rank share. late_s: the excess of each sleep, in emulated seconds."""

    delayed_sender: DelayedSender | None
    window: Window = field(default_factory=Window)
    resources: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))
    late_s: list[float] = field(default_factory=list)


class EmulatedFabric(MpiFabric):
    """`MpiFabric` for runs without arithmetic: meta tensors are sent from and received into a `Window`."""

    name = "emulated"
    capabilities = MpiFabric.capabilities - {"mpi"} | {"sizes"}

    def __init__(self, dilation: Dilation, costs: Costs, timeout_s: float, part_of: EmulatedFabric | None = None,
                 comm: Any = None):  # fmt: skip
        """timeout_s: emulated seconds."""
        super().__init__(comm, timeout_s * dilation.time_factor, part_of.tasks if part_of else None)
        self.dilation, self.costs = dilation, costs
        self.bandwidth_Bps = 1 / dilation.beta_s if dilation.beta_s else None
        delay_s = dilation.alpha_s * dilation.time_factor
        self.shared: Shared = part_of.shared if part_of else Shared(DelayedSender(delay_s) if delay_s else None)

    def _over(self, comm: Any) -> EmulatedFabric:
        return EmulatedFabric(self.dilation, self.costs, self.timeout_s / self.dilation.time_factor, self, comm)

    # time
    def now(self) -> float:
        return super().now() / self.dilation.time_factor

    def sleep(self, seconds: float) -> None:
        began, duration = time.perf_counter(), seconds * self.dilation.time_factor
        super().sleep(duration)
        self.shared.late_s.append((time.perf_counter() - began - duration) / self.dilation.time_factor)

    @contextmanager
    def compute(self, seconds: float | None = None, resource: str | None = "device") -> Iterator[None]:
        if resource is None:
            yield
            self.sleep(seconds or 0.0)
            return
        with self.shared.resources[resource]:
            yield
            if seconds:
                self.sleep(seconds)

    def poll(
        self, done: Callable[[], bool], what: str, timeout: float | None = None, longest_s: float = LONGEST_SLEEP_S
    ) -> None:
        super().poll(done, what, timeout, max(longest_s, LONGEST_PAUSE_S * self.dilation.time_factor))

    # messages
    def _real(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor to send or receive: for a meta tensor zeros (uint8) of its size divided by `shrink`."""
        if not tensor.is_meta:
            return tensor
        return torch.from_numpy(self.shared.window.of(math.ceil(tensor.nbytes / self.dilation.shrink)))

    def isend(self, tensor: torch.Tensor, to: int, tag: int = 0, channel: int = MAIN) -> Work:
        return super().isend(self._real(tensor), to, tag, channel)

    def _begin(self, send: Callable[[], Any], what: str, data: torch.Tensor) -> MpiWork:
        if self.shared.delayed_sender is None:
            return super()._begin(send, what, data)
        late = DelayedSend(self, send, what, data)
        self.shared.delayed_sender.post(late)
        return late

    def irecv(self, tensor: torch.Tensor, source: int, tag: int = 0, channel: int = MAIN) -> Work:
        return super().irecv(self._real(tensor), source, tag, channel)

    def native_allreduce(self, tensor: torch.Tensor, channel: int = MAIN) -> Work:
        if tensor.is_meta:
            zeros = self._real(tensor)
            tensor = zeros[: zeros.numel() // 4 * 4].view(torch.float32)
        return super().native_allreduce(tensor, channel)

    def broadcast(self, tensor: torch.Tensor, root: int = 0, channel: int = MAIN) -> None:
        super().broadcast(self._real(tensor), root, channel)

    def allgather(self, tensor: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
        if not tensor.is_meta:
            return super().allgather(tensor, channel)
        mine = self._real(tensor)
        gathered = torch.from_numpy(self.shared.window.of(self.size * mine.numel()))
        self.bytes_sent += (self.size - 1) * mine.numel()
        self._gather(mine, gathered, "allgather", channel)
        return [torch.empty_like(tensor) for _ in range(self.size)]

    # the record
    def observed(self, train_s: float) -> dict[str, Any]:
        """The number of sleeps, and by how many emulated seconds they were too long, in total and at most.

        TooBusy if they were too long by more than `MOST_LATE` of the training.
        """
        late = self.shared.late_s
        if sum(late) > MOST_LATE * train_s:
            raise TooBusy(
                f"rank {self.rank}: sleeps were {sum(late):.3g} s too long in {train_s:.3g} s of training, more than "
                f"{MOST_LATE:.0%}: this machine is too busy, or too slow for so many ranks; use fewer, or a larger "
                "testbed.slow_down"
            )
        return {"sleeps": len(late), "late_s": sum(late), "latest_s": max(late, default=0.0)}

    def state_dict(self) -> dict[str, Any]:
        return {"late_s": [*self.shared.late_s]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.shared.late_s += state["late_s"]


def start(dilation: Dilation, costs: Costs, timeout_s: float) -> EmulatedFabric:
    """The fabric of a rank that mpirun started on slowed links."""
    return EmulatedFabric(dilation, costs, timeout_s)
