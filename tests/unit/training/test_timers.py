"""The training clock: phases, pauses and intervals, on the host and by events of a simulated GPU."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.experiment.schema import RunConfig
from repro.fabric.virtual import fabric as virtual
from repro.testing.small import NETWORK
from repro.training.clock import Clock, overlap_seconds, union_spans
from repro.training.cuda_timer import DeviceTimes
from repro.training.stops import Stop, TrainingPlan

spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda s: (min(s), max(s))), max_size=8)


@settings(max_examples=100, deadline=None)
@given(spans, spans)
def test_overlap_counts_the_points_in_both(first, second):
    def points(group):
        return {p for start, end in group for p in range(start, end)}

    assert overlap_seconds(first, second) == len(points(first) & points(second))
    assert sum(end - start for start, end in union_spans(first)) == len(points(first))


def started(fabric):
    clock = Clock(fabric)
    clock.start()
    return clock


def on_one_rank(body):
    return virtual.run(1, body, NETWORK)[0]


def test_phases_sum_to_the_training_time_and_pauses_do_not_count():
    def body(fabric):
        clock = Clock(fabric)
        fabric.sleep(5)
        clock.start()
        for name, seconds in (("forward", 1), ("backward", 2), ("communicate", 0.5), ("update", 0.25)):
            with clock.phase(name):
                fabric.sleep(seconds)
        with clock.paused():
            fabric.sleep(100)
            with clock.activity("evaluation"):
                fabric.sleep(100)
        with clock.phase("forward"):
            fabric.sleep(1)
        return clock.take(), clock.train_s(), dict(clock.wall)

    phases, train_s, wall = on_one_rank(body)
    assert train_s == 4.75
    assert phases["forward"] == 2 and sum(phases.values()) == train_s and phases["overlapped"] == 0
    assert {"training", "evaluation", "logging"} <= set(wall)


def test_communication_of_another_line_during_computation_is_overlapped():
    def body(fabric):
        clock = started(fabric)

        def communicate():
            with clock.phase("communicate"):
                fabric.sleep(10)

        task = fabric.spawn(communicate, "communication")
        with clock.phase("forward"):
            fabric.sleep(3)
        with clock.phase("communicate"):  # blocked on it: exposed
            task.join()
        return clock.take()

    phases = on_one_rank(body)
    assert (phases["forward"], phases["communicate"], phases["overlapped"]) == (3, 7, 3)


def test_phases_do_not_nest_on_the_main_line():
    def body(fabric):
        clock = started(fabric)
        with clock.phase("forward"), pytest.raises(ValueError, match="not nested"), clock.phase("update"):
            pass
        with pytest.raises(ValueError, match="phases: forward"), clock.phase("idling"):
            pass
        return True

    assert on_one_rank(body)


def test_an_interruption_suspends_the_phase_around_it():
    def body(fabric):
        clock = started(fabric)
        with clock.phase("backward"):
            fabric.sleep(1)
            with clock.interruption("compress"):
                fabric.sleep(2)
            fabric.sleep(4)
        with clock.interruption("compress"):  # outside a phase it is a phase
            fabric.sleep(8)
        return clock.take(), clock.train_s(), clock.middle(100)

    phases, train_s, intervals = on_one_rank(body)
    assert (phases["backward"], phases["compress"]) == (5, 10)
    assert sum(phases.values()) == train_s == 15
    assert [(i.name, i.start, i.end) for i in intervals] == [
        ("backward", 0, 1), ("compress", 1, 3), ("backward", 3, 7), ("compress", 7, 15),
    ]  # fmt: skip


def test_an_interruption_of_another_line_does_not_change_the_main_line():
    def body(fabric):
        clock = started(fabric)

        def compress():
            with clock.interruption("compress"):
                fabric.sleep(2)

        with clock.phase("backward"):
            task = fabric.spawn(compress, "communication")
            fabric.sleep(3)
        task.join()
        return clock.take()

    assert on_one_rank(body)["backward"] == 3


def test_a_restored_clock_continues():
    def body(fabric):
        first, second = Clock(fabric), Clock(fabric)
        first.start()
        fabric.sleep(3)
        with first.paused():
            second.load_state_dict(first.state_dict())
        second.start()
        fabric.sleep(2)
        return second.train_s()

    assert on_one_rank(body) == 5


def test_the_plan_stops_where_the_configuration_says():
    config = RunConfig.model_construct(epochs=1.0, eval_every=0.5, checkpoint_every=0.3, breakdown=False)
    plan = TrainingPlan.of(config, 10)
    checkpoints = [Stop(iteration, False, True) for iteration in (3, 6, 9)]
    assert list(plan.stops(after=0)) == [
        checkpoints[0], Stop(5, True, False), *checkpoints[1:], Stop(10, True, False),
    ]  # fmt: skip
    assert [stop.iteration for stop in plan.stops(after=6)] == [9, 10]
    rare = RunConfig.model_construct(epochs=0.7, eval_every=5, checkpoint_every=5, breakdown=False)
    assert [stop.evaluate for stop in TrainingPlan.of(rare, 10).stops(0)] == [True]


# --- phases on a GPU, timed by events of a simulated stream, which runs concurrently with the host


class Stream:
    """A queue of kernels for each task, which the host does not wait for. Times are virtual seconds."""

    def __init__(self, fabric):
        self.fabric, self.ends, self.events, self.waits = fabric, {}, 0, 0

    @property
    def free(self):
        return self.ends.get(self.fabric.current_task(), 0.0)

    def launch(self, seconds):
        self.fabric.sleep(0.001)  # that it takes to queue
        self.ends[self.fabric.current_task()] = max(self.free, self.fabric.now()) + seconds

    def follow(self, line):
        """Let the calling task's stream wait for that line's queue."""
        self.ends[self.fabric.current_task()] = max(self.free, self.ends[line])

    def synchronise(self):
        self.waits += 1
        self.fabric.sleep(max(0.0, max(self.ends.values(), default=0.0) - self.fabric.now()))

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


def gpu(fabric):
    stream = Stream(fabric)
    clock = Clock(fabric, stream.synchronise, device_times=DeviceTimes(stream.event))
    with clock.phase("other"):  # before the start, on the host's clock
        fabric.sleep(2)
    clock.take()
    clock.start()
    return stream, clock


def test_phases_last_as_long_as_the_device_executes_them_without_synchronisation():
    def body(fabric):
        stream, clock = gpu(fabric)
        waits = stream.waits
        for _ in range(3):
            for name, seconds in (("forward", 0.1), ("backward", 0.2), ("update", 0.05)):
                with clock.phase(name):
                    stream.launch(seconds)
        assert stream.waits == waits and fabric.now() < 2.1, "the host is far ahead"
        with clock.paused():
            return clock.take(), clock.train_s(), stream.events

    phases, train_s, events = on_one_rank(body)
    assert phases["forward"] == pytest.approx(0.3, abs=0.002)
    assert phases["backward"] == pytest.approx(0.6, abs=0.002)
    assert phases["update"] == pytest.approx(0.15, abs=0.002)
    assert sum(phases.values()) == pytest.approx(train_s, abs=1e-3)
    assert events == 1 + 18, "an anchor, and two in each phase"


def test_hidden_communication_is_computed_from_the_devices_times():
    """The host is in `communicate` while the device is still in its backward pass."""

    def body(fabric):
        stream, clock = gpu(fabric)

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


def test_communication_that_waits_for_the_device_is_not_hidden():
    """The task receives a gradient that the device has not computed yet. Its communication starts after that, on the
    task's own stream, and only the next forward pass hides it."""

    def body(fabric):
        (stream, clock), queue = gpu(fabric), fabric.queue()

        def communicate():
            queue.get()
            stream.follow("main")
            with clock.phase("communicate"), clock.interruption("compress"):
                stream.launch(0.3)

        task = fabric.spawn(communicate, "communication")
        with clock.phase("backward"):
            stream.launch(0.2)
            queue.put(None)
        with clock.phase("forward"):
            stream.launch(0.1)
        task.join()
        with clock.paused():
            return clock.take(), clock.middle(1.0)

    phases, intervals = on_one_rank(body)
    assert phases["overlapped"] == pytest.approx(0.1, abs=0.003)
    [hidden] = [each for each in intervals if each.name == "communicate"]
    assert hidden.line == "communication" and (hidden.start, hidden.end) == pytest.approx((2.2, 2.5), abs=0.003)


def test_a_step_lasts_as_long_as_the_device_executes_it():
    def body(fabric):
        stream, clock = gpu(fabric)
        steps = []
        for _ in range(4):
            began = clock.point()
            stream.launch(0.25)
            steps.append((began, clock.point()))
        assert stream.waits == 1 and fabric.now() < 2.1
        with clock.paused():
            return clock.between(steps), clock.train_s()

    steps, train_s = on_one_rank(body)
    assert steps == pytest.approx([0.25] * 4, abs=0.002) and sum(steps) == pytest.approx(train_s, abs=0.002)


def test_an_interrupted_phase_continues_and_events_are_reused():
    def body(fabric):
        stream, clock = gpu(fabric)
        taken = []
        for _ in range(5):
            with clock.phase("backward"):
                stream.launch(0.1)
                with clock.interruption("compress"):
                    stream.launch(0.03)
                stream.launch(0.1)
            with clock.paused():
                fabric.sleep(1)
                taken.append((clock.take(), stream.events))
        return taken

    taken = on_one_rank(body)
    for phases, _ in taken:
        assert phases["backward"] == pytest.approx(0.2, abs=0.003)
        assert phases["compress"] == pytest.approx(0.03, abs=0.003)
    assert [events - taken[0][1] for _, events in taken] == [0, 1, 2, 3, 4], "one more anchor each time"
