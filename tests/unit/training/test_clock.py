"""The training clock and its intervals: phases sum, pauses do not count, overlap is an intersection."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.experiment.schema import RunConfig
from repro.fabric import virtual
from repro.testing.small import NETWORK
from repro.training.clock import Clock
from repro.training.intervals import overlap, union
from repro.training.stops import Stop, TrainingPlan

spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda s: (min(s), max(s))), max_size=8)


@settings(max_examples=100, deadline=None)
@given(spans, spans)
def test_overlap_counts_the_points_in_both(first, second):
    def points(group):
        return {p for start, end in group for p in range(start, end)}

    assert overlap(first, second) == len(points(first) & points(second))
    assert sum(end - start for start, end in union(first)) == len(points(first))


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
        clock = Clock(fabric)
        clock.start()

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
        clock = Clock(fabric)
        clock.start()
        with clock.phase("forward"), pytest.raises(ValueError, match="not nested"), clock.phase("update"):
            pass
        with pytest.raises(ValueError, match="phases: forward"), clock.phase("idling"):
            pass
        return True

    assert on_one_rank(body)


def test_an_interruption_suspends_the_phase_around_it():
    def body(fabric):
        clock = Clock(fabric)
        clock.start()
        with clock.phase("backward"):
            fabric.sleep(1)
            with clock.interruption("compress"):
                fabric.sleep(2)
            fabric.sleep(4)
        with clock.interruption("compress"):  # of nothing: a phase
            fabric.sleep(8)
        return clock.take(), clock.train_s(), clock.middle(100)

    phases, train_s, intervals = on_one_rank(body)
    assert (phases["backward"], phases["compress"]) == (5, 10)
    assert sum(phases.values()) == train_s == 15
    assert [(i.name, i.start, i.end) for i in intervals] == [
        ("backward", 0, 1), ("compress", 1, 3), ("backward", 3, 7), ("compress", 7, 15),
    ]  # fmt: skip


def test_an_interruption_of_another_line_leaves_the_main_line_alone():
    def body(fabric):
        clock = Clock(fabric)
        clock.start()

        def compress():
            with clock.interruption("compress"):
                fabric.sleep(2)

        with clock.phase("backward"):
            task = fabric.spawn(compress, "communication")
            fabric.sleep(3)
        task.join()
        return clock.take()

    assert on_one_rank(body)["backward"] == 3


def test_a_restored_clock_goes_on():
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
    config = RunConfig.model_construct(epochs=1.0, eval_every=0.5, checkpoint_every=0.3)
    plan = TrainingPlan.of(config, 10)
    assert list(plan.stops(after=0)) == [
        Stop(3, False, True),
        Stop(5, True, False),
        Stop(6, False, True),
        Stop(9, False, True),
        Stop(10, True, False),
    ]
    assert [stop.iteration for stop in plan.stops(after=6)] == [9, 10]
    rare = RunConfig.model_construct(epochs=0.7, eval_every=5, checkpoint_every=5)
    assert [stop.evaluate for stop in TrainingPlan.of(rare, 10).stops(0)] == [True]
