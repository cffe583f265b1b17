"""CUDA streams of a rank's tasks, events between them, and copies to the host.

If all tasks shared a stream, a message's copy to the host would wait for every kernel that the main thread has launched
meanwhile, and nothing would overlap. So each task has its own stream. A task that passes something to another (by a
queue, an event, a lock, or its end) records a mark in its stream, and the other task's stream waits for the mark; the
host does not. Not yet run on GPUs: the tests use a fake device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from typing import Any

import torch

Staged = tuple[torch.Tensor, Callable[[], object]]


class Fetched:
    """A tensor being copied to the host; here, on a CPU, the tensor itself."""

    def __init__(self, host: torch.Tensor):
        self.host = host

    def ready(self) -> bool:
        """Whether the copy is complete."""
        return True

    def value(self) -> torch.Tensor:
        return self.host


class Streams:
    """The streams of a CPU, where every operation completes at once."""

    def own(self) -> AbstractContextManager[object]:
        """A context in which the calling thread uses a stream of its own."""
        return nullcontext()

    def mark(self) -> Any:
        """A mark at the current end of the calling task's stream."""
        return None

    def follow(self, mark: Any, item: object = None) -> None:
        """Make the calling task's stream wait for the mark.

        item: the object that was passed, which may contain tensors of another stream.
        """

    def outgoing(self, tensor: torch.Tensor) -> torch.Tensor:
        """The payload as a host tensor of bytes, for libraries that cannot read device memory; on a CPU without a copy.

        Waits for the kernels that produce the tensor, not for later ones.
        """
        return as_bytes(tensor.detach().contiguous())

    def incoming(self, tensor: torch.Tensor) -> Staged:
        """A host tensor of bytes to receive into, and a function to call when it is full."""
        return as_bytes(tensor.detach()), lambda: None

    def hand_back(self, host: torch.Tensor, tensor: torch.Tensor) -> None:
        """Copy the result of `outgoing`, which an operation has changed in place, back into the tensor."""

    def fetch(self, tensor: torch.Tensor) -> Fetched:
        """Start a copy to the host; only reading its value waits."""
        return Fetched(tensor.detach())


class DeviceCopy(Fetched):
    """A tensor being copied from a device."""

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
    """The streams of the current GPU; in torch each thread has a current stream."""

    def own(self) -> AbstractContextManager[object]:
        return torch.cuda.stream(torch.cuda.Stream())

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(blocking=True)  # a waiting thread sleeps instead of spinning
        event.record()
        return event

    def follow(self, mark: torch.cuda.Event | None, item: object = None) -> None:
        if mark is None:  # from before this process used the GPU
            return
        stream = torch.cuda.current_stream()
        stream.wait_event(mark)
        for tensor in nested_tensors(item):
            if tensor.is_cuda:
                tensor.record_stream(stream)  # the allocator must not reuse its memory before this stream is done

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is in the device's memory."""
        return tensor.is_cuda

    def copy(self, source: torch.Tensor, to: torch.Tensor) -> None:
        """Launch a copy on the calling task's stream, from or to pinned host memory."""
        to.copy_(source, non_blocking=True)

    def pinned(self, like: torch.Tensor) -> torch.Tensor:
        """Pinned host memory."""
        return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

    def passed(self, mark: torch.cuda.Event) -> bool:
        """Whether the device has reached a mark, without waiting."""
        return mark.query()

    def reach(self, mark: torch.cuda.Event) -> None:
        """Make the host wait for a mark."""
        mark.synchronize()

    def outgoing(self, tensor: torch.Tensor) -> torch.Tensor:
        if not self.holds(tensor):
            return super().outgoing(tensor)
        flat = as_bytes(tensor.detach().contiguous())
        host = self.pinned(flat)
        self.copy(flat, host)
        self.reach(self.mark())
        return host

    def fetch(self, tensor: torch.Tensor) -> Fetched:
        return DeviceCopy(self, tensor.detach()) if self.holds(tensor) else super().fetch(tensor)

    def incoming(self, tensor: torch.Tensor) -> Staged:
        flat = as_bytes(tensor.detach())
        if not self.holds(tensor):
            return flat, lambda: None
        host, mark = self.pinned(flat), self.mark()

        def full() -> None:
            self.follow(mark)  # the task that waits may not be the one that last read the tensor
            self.copy(host, flat)

        return host, full

    def hand_back(self, host: torch.Tensor, tensor: torch.Tensor) -> None:
        if self.holds(tensor):
            self.copy(host, as_bytes(tensor.detach()))


def process_streams() -> Streams:
    """The streams of this process: a GPU's as soon as it uses one."""
    return CUDA if torch.cuda.is_initialized() else NONE


def nested_tensors(item: object) -> Iterator[torch.Tensor]:
    """The tensors in nested sequences, mappings and dataclasses."""
    if isinstance(item, torch.Tensor):
        yield item
    elif isinstance(item, list | tuple):
        for part in item:
            yield from nested_tensors(part)
    elif isinstance(item, Mapping):
        yield from nested_tensors(list(item.values()))
    elif is_dataclass(item):
        yield from nested_tensors([getattr(item, field.name) for field in fields(item)])


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor, as uint8 (bytes,)."""
    return tensor.view(-1).view(torch.uint8)


NONE, CUDA = Streams(), DeviceStreams()
