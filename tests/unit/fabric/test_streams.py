"""Tasks and their streams on a made-up device, which does nothing until the host waits, and then only what it must."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
import torch

from repro.core.errors import Diverged
from repro.fabric.real.streams import DeviceStreams, tensors
from repro.fabric.real.threads import TaskGroup
from repro.fabric.real.torch_dist import TorchFabric
from repro.fabric.sparse.gradients import Sparse
from repro.strategies.shared.finiteness import Finiteness


class Device(DeviceStreams):
    """Streams of work that was asked for: (name, what to do) or ("follow", mark). A mark is (stream, place in it).

    done   names of what has run, in order
    never  names of what would not end for the length of the test
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

    def ask(self, name, act=lambda: None):
        with self.lock:
            self.streams[self.stream].append((name, act))

    def mark(self):
        with self.lock:
            return self.stream, len(self.streams[self.stream])

    def follow(self, mark, item=None):
        if mark is not None:
            self.ask("follow", mark)

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
        """All of the device: what no step may ask for."""
        for stream, asked in enumerate(self.streams):
            self.reach((stream, len(asked)))

    def holds(self, tensor):
        return True

    def copy(self, source, to):
        self.ask("copy", lambda: to.copy_(source))

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


def test_a_copy_waits_for_its_producer_alone(fabric):
    """Not for what the main line has asked for since, nor for what another task has."""
    device, gradient, jobs = fabric.device, torch.zeros(2), fabric.queue()
    device.never |= {"next forward", "selection"}
    gate = fabric.event()

    def other():
        device.ask("selection")
        gate.set()

    def communicate():
        return values(device.outgoing(jobs.get()))

    fabric.spawn(other, "other")
    task = fabric.spawn(communicate, "communication")
    fabric.tasks.wait_until(lambda: gate.flag, "the other task")  # the host alone: no hand-over
    device.ask("before")
    device.ask("backward", lambda: gradient.fill_(3.0))
    jobs.put(gradient)
    device.ask("next forward")
    assert task.join() == [3.0, 3.0]
    assert device.done == ["before", "backward", "copy"]
    with pytest.raises(AssertionError, match=r"waits for (next forward|selection)"):
        device.synchronize()


def test_a_received_message_waits_for_who_still_reads_its_buffer_and_the_host_for_nothing(fabric):
    device, buffer, seen, arrived = fabric.device, torch.ones(1), [], fabric.queue()
    device.ask("last use", lambda: seen.append(buffer.item()))
    host, full = device.incoming(buffer)

    def receive():
        host.view(torch.float32).fill_(7.0)
        full()
        arrived.put(None)

    fabric.spawn(receive, "watcher").join()
    arrived.get()
    device.ask("first use", lambda: seen.append(buffer.item()))
    assert device.done == []
    device.synchronize()
    assert seen == [1.0, 7.0] and device.done == ["last use", "copy", "first use"]


@pytest.mark.parametrize("way", ["queue", "event", "lock", "task"])
def test_what_is_handed_over_comes_behind_what_makes_it(fabric, way):
    device, queue, event, lock = fabric.device, fabric.queue(), fabric.event(), fabric.lock()

    def make():
        with lock:
            device.ask("made")
        queue.put(None)
        event.set()

    task = fabric.spawn(make, "maker")
    if way == "lock":
        fabric.tasks.wait_until(lambda: event.flag, "the maker")
        with lock:
            pass
    else:
        {"queue": queue.get, "event": event.wait, "task": task.join}[way]()
    device.ask("used")
    device.reach(device.mark())
    assert device.done == ["made", "used"]


def test_a_task_comes_behind_what_was_there_when_it_was_spawned(fabric):
    device = fabric.device
    device.ask("set up")
    task = fabric.spawn(lambda: device.ask("used"), "task")
    task.join()
    device.reach(device.mark())
    assert device.done == ["set up", "used"]


def test_a_value_is_fetched_when_the_device_has_got_there_and_nobody_waits(fabric, monkeypatch):
    """Finiteness: of step 1, which is not, the host hears at a later step; nothing is asked of the device meanwhile."""
    device = fabric.device
    monkeypatch.setattr("repro.fabric.real.streams.here", lambda: device)
    finiteness = Finiteness(["weight"])
    broken, fine = (Sparse(torch.ones(1), torch.tensor([index], dtype=torch.int32)) for index in (-1, 3))
    finiteness.watch(broken, 1)
    finiteness.watch(fine, 2)
    assert device.done == []
    device.reach((0, 1))  # the device goes on by itself
    said = r"NaN or infinity in the gradient of weight on rank 0 at step 1$"
    with pytest.raises(Diverged, match=said):
        finiteness.watch(fine, 3)
    finiteness.look(3, wait=True)  # at a stop: all of it
    assert device.done == ["copy"] * 3 and not finiteness.coming
    finiteness.watch(broken, 4)
    with pytest.raises(Diverged, match=r"at step 4$"):
        finiteness.look(4, wait=True)


def test_all_tensors_of_what_is_handed_over_are_found():
    first, second = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    item = (3, [Sparse(first, second)], {"a": (first,)}, None)
    assert [id(tensor) for tensor in tensors(item)] == [id(first), id(second), id(first)]
