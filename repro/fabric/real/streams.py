"""What the tasks of a rank have of its device: a stream each, events where one hands over to another, host copies.

A stream's work runs in the order in which it was asked for, beside that of the others. All tasks on one stream would
wait for each other's work: a copy to the host for a message would wait for every kernel that the main line has asked
for meanwhile, and nothing would overlap. So a task works on a stream of its own, and whoever hands something to another
(a queue, an event, a lock, the end of a task) marks how far its stream is, behind which the other's goes on. The host
does not wait for that. Not yet run on GPUs: tested with a made-up device.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from typing import Any

import torch

Staged = tuple[torch.Tensor, Callable[[], object]]


class Fetched:
    """A tensor on its way to the host; here it is there already."""

    def __init__(self, host: torch.Tensor):
        self.host = host

    def ready(self) -> bool:
        """Whether `value` would return at once."""
        return True

    def value(self) -> torch.Tensor:
        return self.host


class Streams:
    """No device: all is done when it is asked for."""

    def own(self) -> AbstractContextManager[object]:
        """Inside, the calling thread works on a stream of its own."""
        return nullcontext()

    def mark(self) -> Any:
        """How far the calling task's stream is."""
        return None

    def follow(self, mark: Any, item: object = None) -> None:
        """What the calling task asks for from here on comes behind the mark. item: what was handed over, whose tensors
        another stream made."""

    def outgoing(self, tensor: torch.Tensor) -> torch.Tensor:
        """A host tensor of bytes with the payload, for libraries that cannot read a device's memory; on a CPU its own.

        Waits for what makes the tensor, and for nothing that comes behind."""
        return as_bytes(tensor.detach().contiguous())

    def incoming(self, tensor: torch.Tensor) -> Staged:
        """A host tensor of bytes to receive into, and what to call when it is full."""
        return as_bytes(tensor.detach()), lambda: None

    def hand_back(self, host: torch.Tensor, tensor: torch.Tensor) -> None:
        """What has become of the bytes of `outgoing`, into the tensor."""

    def fetch(self, tensor: torch.Tensor) -> Fetched:
        """A tensor to be read on the host, for which nothing waits until it is."""
        return Fetched(tensor.detach())


class OnItsWay(Fetched):
    """From a device."""

    def __init__(self, streams: DeviceStreams, tensor: torch.Tensor):
        super().__init__(streams.pinned(tensor))
        self.streams = streams
        streams.copy(tensor, self.host)
        self.mark = streams.mark()

    def ready(self) -> bool:
        return self.streams.passed(self.mark)

    def value(self) -> torch.Tensor:
        self.streams.reach(self.mark)
        return self.host


class DeviceStreams(Streams):
    """A device, whose part is the abstract methods."""

    @abstractmethod
    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is in the device's memory."""

    @abstractmethod
    def copy(self, source: torch.Tensor, to: torch.Tensor) -> None:
        """Ask for it, on the calling task's stream; one of the two is in pinned host memory."""

    @abstractmethod
    def pinned(self, like: torch.Tensor) -> torch.Tensor:
        """Host memory that the device reads and writes by itself."""

    @abstractmethod
    def passed(self, mark: Any) -> bool:
        """Whether the device has reached a mark; does not wait."""

    @abstractmethod
    def reach(self, mark: Any) -> None:
        """The host waits for a mark."""

    def outgoing(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self.holds(tensor):
            return super().outgoing(tensor)
        flat = as_bytes(tensor.detach().contiguous())
        host = self.pinned(flat)
        self.copy(flat, host)
        self.reach(self.mark())
        return host

    def fetch(self, tensor: torch.Tensor) -> Fetched:
        return OnItsWay(self, tensor.detach()) if self.holds(tensor) else super().fetch(tensor)

    def incoming(self, tensor: torch.Tensor) -> Staged:
        flat = as_bytes(tensor.detach())
        if not self.holds(tensor):
            return flat, lambda: None
        host, mark = self.pinned(flat), self.mark()

        def full() -> None:
            self.follow(mark)  # who waits may be another task than who said that the tensor may be overwritten
            self.copy(host, flat)

        return host, full

    def hand_back(self, host: torch.Tensor, tensor: torch.Tensor) -> None:
        if self.holds(tensor):
            self.copy(host, as_bytes(tensor.detach()))


class CudaStreams(DeviceStreams):
    """The current GPU, by torch: of a thread the current stream is the thread's own choice."""

    def own(self) -> AbstractContextManager[object]:
        return torch.cuda.stream(torch.cuda.Stream())

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(blocking=True)  # who waits sleeps, and leaves the core to the others
        event.record()
        return event

    def follow(self, mark: torch.cuda.Event | None, item: object = None) -> None:
        if mark is None:  # from before this process used the GPU
            return
        stream = torch.cuda.current_stream()
        stream.wait_event(mark)
        for tensor in tensors(item):
            if tensor.is_cuda:
                tensor.record_stream(stream)  # its memory is not given to others before this stream is done with it

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.is_cuda

    def copy(self, source: torch.Tensor, to: torch.Tensor) -> None:
        to.copy_(source, non_blocking=True)

    def pinned(self, like: torch.Tensor) -> torch.Tensor:
        return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

    def passed(self, mark: torch.cuda.Event) -> bool:
        return mark.query()

    def reach(self, mark: torch.cuda.Event) -> None:
        mark.synchronize()


def here() -> Streams:
    """Those of this process: a GPU's once it uses one."""
    return CUDA if torch.cuda.is_initialized() else NONE


def tensors(item: object) -> Iterator[torch.Tensor]:
    """Those in nested sequences, mappings and dataclasses."""
    if isinstance(item, torch.Tensor):
        yield item
    elif isinstance(item, list | tuple):
        for part in item:
            yield from tensors(part)
    elif isinstance(item, Mapping):
        yield from tensors(list(item.values()))
    elif is_dataclass(item):
        yield from tensors([getattr(item, field.name) for field in fields(item)])


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor, as uint8 (bytes,)."""
    return tensor.view(-1).view(torch.uint8)


NONE, CUDA = Streams(), CudaStreams()
