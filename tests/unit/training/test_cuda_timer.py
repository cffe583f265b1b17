"""Phases on a GPU, timed by events: a made-up stream that works behind the host's back. No GPU needed."""

from __future__ import annotations

import pytest

from repro.fabric import virtual
from repro.testing.small import NETWORK
from repro.training.clock import Clock
from repro.training.cuda_timer import DeviceTimes


class Stream:
    """Kernels queue up; the host goes on at once. Times are virtual seconds."""

    def __init__(self, fabric):
        self.fabric, self.free, self.events, self.waits = fabric, 0.0, 0, 0

    def launch(self, seconds):
        self.fabric.sleep(0.001)  # that it takes to queue
        self.free = max(self.free, self.fabric.now()) + seconds

    def synchronise(self):
        self.waits += 1
        self.fabric.sleep(max(0.0, self.free - self.fabric.now()))

    def event(self):
        self.events += 1
        return Event(self)


class Event:
    def __init__(self, stream):
        self.stream = stream

    def record(self):
        self.passed = max(self.stream.free, self.stream.fabric.now())

    def synchronize(self):
        assert self.stream.fabric.now() >= self.passed, "read while the training clock runs"

    def elapsed_time(self, later):
        return 1e3 * (later.passed - self.passed)


def on_one_rank(body):
    return virtual.run(1, body, NETWORK)[0]


def test_phases_are_as_long_as_the_device_is_in_them_and_nothing_waits_for_it():
    def body(fabric):
        stream = Stream(fabric)
        clock = Clock(fabric, stream.synchronise, device_times=DeviceTimes(stream.event))
        with clock.phase("other"):  # before training: the host's clock
            fabric.sleep(2)
        clock.take()
        clock.start()
        waits = stream.waits
        for _ in range(3):
            for name, seconds in (("forward", 0.1), ("backward", 0.2), ("update", 0.05)):
                with clock.phase(name):
                    stream.launch(seconds)
        assert stream.waits == waits and fabric.now() < 2.1  # the host is far ahead
        with clock.paused():
            return clock.take(), clock.train_s(), stream.events

    phases, train_s, events = on_one_rank(body)
    assert phases["forward"] == pytest.approx(0.3, abs=0.002)
    assert phases["backward"] == pytest.approx(0.6, abs=0.002)
    assert phases["update"] == pytest.approx(0.15, abs=0.002)
    assert sum(phases.values()) == pytest.approx(train_s, abs=1e-3)
    assert events == 1 + 18  # an anchor, and two a phase


def test_hidden_communication_is_judged_by_when_the_device_computed():
    """The host is in `communicate` while the device is still in its backward pass."""

    def body(fabric):
        stream = Stream(fabric)
        clock = Clock(fabric, stream.synchronise, device_times=DeviceTimes(stream.event))
        clock.start()

        def communicate():
            with clock.phase("communicate"):
                fabric.sleep(0.3)

        task = fabric.spawn(communicate, "communication")
        with clock.phase("backward"):
            stream.launch(0.2)
        with clock.phase("communicate"):
            task.join()
        with clock.paused():
            return clock.take()

    phases = on_one_rank(body)
    assert phases["overlapped"] == pytest.approx(0.2, abs=0.002)
    assert phases["backward"] == pytest.approx(0.2, abs=0.002)
    assert phases["communicate"] == pytest.approx(0.1, abs=0.002)


def test_an_interrupted_phase_goes_on_and_events_are_used_again():
    def body(fabric):
        stream = Stream(fabric)
        clock = Clock(fabric, stream.synchronise, device_times=DeviceTimes(stream.event))
        clock.start()
        found = []
        for _ in range(5):
            with clock.phase("backward"):
                stream.launch(0.1)
                with clock.interruption("compress"):
                    stream.launch(0.03)
                stream.launch(0.1)
            with clock.paused():
                fabric.sleep(1)
                found.append((clock.take(), stream.events))
        return found

    found = on_one_rank(body)
    for phases, _ in found:
        assert phases["backward"] == pytest.approx(0.2, abs=0.003)
        assert phases["compress"] == pytest.approx(0.03, abs=0.003)
    assert [events - found[0][1] for _, events in found] == [0, 1, 2, 3, 4]  # one more anchor each time
