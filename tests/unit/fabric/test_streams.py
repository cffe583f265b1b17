"""Tasks and their streams on a fake device that executes nothing until the host waits, and then only what it must."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
import torch

from repro.core.errors import Diverged
from repro.fabric.real.streams import DeviceStreams, nested_tensors
from repro.fabric.real.threads import TaskGroup
from repro.fabric.real.torch_dist import TorchFabric
from repro.fabric.sparse.gradients import Sparse
from repro.strategies.shared.finiteness import Finiteness


class Device(DeviceStreams):
    """Streams of launched work: (name, function) or ("follow", mark). A mark is (stream, place in it).

    done   names of the executed work, in order
    never  names of work that would not end during the test
    """

    def __init__(self):
        self.local, self.lock = threading.local(), threading.RLock()
        self.streams: list[list] = [[]]
        self.at: list[int] = [0]  # how far each has run
        self.done: list[str] = []
        self.never: set[str] = set()

    @property
    def stream(self):
        return getattr(self.local, "stream", 0)

    @contextmanager
    def own(self):
        with self.lock:
            self.streams.append([])
            self.at.append(0)
            self.local.stream = len(self.streams) - 1
        yield

    def launch(self, name, act=lambda: None):
        with self.lock:
            self.streams[self.stream].append((name, act))

    def mark(self):
        with self.lock:
            return self.stream, len(self.streams[self.stream])

    def follow(self, mark, item=None):
        if mark is not None:
            self.launch("follow", mark)

    def reach(self, mark):
        stream, place = mark
        with self.lock:
            while self.at[stream] < place:
                name, act = self.streams[stream][self.at[stream]]
                assert name not in self.never, f"waits for {name}"
                self.at[stream] += 1
                if name == "follow":
                    self.reach(act)
                else:
                    act()
                    self.done.append(name)

    def passed(self, mark):
        return self.at[mark[0]] >= mark[1]

    def synchronize(self):
        """Wait for all streams, which no step may do."""
        for stream, launched in enumerate(self.streams):
            self.reach((stream, len(launched)))

    def holds(self, tensor):
        return True

    def copy(self, source, to):
        self.launch("copy", lambda: to.copy_(source))

    def pinned(self, like):
        return torch.zeros_like(like)


@pytest.fixture
def fabric(monkeypatch):
    device = Device()
    monkeypatch.setattr(TaskGroup, "streams", property(lambda tasks: device))
    made = object.__new__(TorchFabric)
    made.tasks, made.device = TaskGroup(0, 20.0), device
    return made


def values(host):
    return host.view(torch.float32).tolist()


def test_a_copy_waits_only_for_its_producer(fabric):
    """Not for later work of the main task, nor for work of another task."""
    device, gradient, jobs = fabric.device, torch.zeros(2), fabric.queue()
    device.never |= {"next forward", "selection"}
    gate = fabric.event()

    def other():
        device.launch("selection")
        gate.set()

    def communicate():
        return values(device.outgoing(jobs.get()))

    fabric.spawn(other, "other")
    task = fabric.spawn(communicate, "communication")
    fabric.tasks.wait_until(lambda: gate.flag, "the other task")  # on the host only, so the streams do not wait
    device.launch("before")
    device.launch("backward", lambda: gradient.fill_(3.0))
    jobs.put(gradient)
    device.launch("next forward")
    assert task.join() == [3.0, 3.0]
    assert device.done == ["before", "backward", "copy"]
    with pytest.raises(AssertionError, match=r"waits for (next forward|selection)"):
        device.synchronize()


def test_a_received_message_waits_for_the_buffers_last_reader_and_the_host_for_nothing(fabric):
    device, buffer, seen, arrived = fabric.device, torch.ones(1), [], fabric.queue()
    device.launch("last use", lambda: seen.append(buffer.item()))
    host, full = device.incoming(buffer)

    def receive():
        host.view(torch.float32).fill_(7.0)
        full()
        arrived.put(None)

    fabric.spawn(receive, "watcher").join()
    arrived.get()
    device.launch("first use", lambda: seen.append(buffer.item()))
    assert device.done == []
    device.synchronize()
    assert seen == [1.0, 7.0] and device.done == ["last use", "copy", "first use"]


@pytest.mark.parametrize("way", ["queue", "event", "lock", "task"])
def test_work_on_a_passed_object_follows_its_producer(fabric, way):
    device, queue, event, lock = fabric.device, fabric.queue(), fabric.event(), fabric.lock()

    def make():
        with lock:
            device.launch("made")
        queue.put(None)
        event.set()

    task = fabric.spawn(make, "maker")
    if way == "lock":
        fabric.tasks.wait_until(lambda: event.flag, "the maker")
        with lock:
            pass
    else:
        {"queue": queue.get, "event": event.wait, "task": task.join}[way]()
    device.launch("used")
    device.reach(device.mark())
    assert device.done == ["made", "used"]


def test_a_task_follows_the_work_launched_before_it(fabric):
    device = fabric.device
    device.launch("set up")
    task = fabric.spawn(lambda: device.launch("used"), "task")
    task.join()
    device.reach(device.mark())
    assert device.done == ["set up", "used"]


def test_finiteness_is_reported_at_a_later_step_without_waiting(fabric, monkeypatch):
    device = fabric.device
    monkeypatch.setattr("repro.fabric.real.streams.process_streams", lambda: device)
    finiteness = Finiteness(["weight"])
    broken, fine = (Sparse(torch.ones(1), torch.tensor([index], dtype=torch.int32)) for index in (-1, 3))
    finiteness.watch(broken, 1)
    finiteness.watch(fine, 2)
    assert device.done == []
    device.reach((0, 1))  # the device goes on by itself
    with pytest.raises(Diverged, match=r"NaN or infinity in the gradient of weight on rank 0 at step 1$"):
        finiteness.watch(fine, 3)
    finiteness.check(3, wait=True)  # at a stop: all of it
    assert device.done == ["copy"] * 3 and not finiteness.pending
    finiteness.watch(broken, 4)
    with pytest.raises(Diverged, match=r"at step 4$"):
        finiteness.check(4, wait=True)


def test_the_tensors_in_nested_objects():
    first, second = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    item = (3, [Sparse(first, second)], {"a": (first,)}, None)
    assert [id(tensor) for tensor in nested_tensors(item)] == [id(first), id(second), id(first)]
