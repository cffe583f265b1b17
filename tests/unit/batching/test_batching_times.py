"""EXETime, the executed time and constraint (5) of batches: by hand, and against simulations in exact arithmetic."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.batching import times
from repro.batching.profile import PullProfile
from repro.batching.ticks import joined, ticks_of
from repro.batching.times import executed_s, exetime_s, meets_constraint, timeline
from repro.common.errors import InputError
from tests.support import batching as common
from tests.support.batching import any_profiles, in_ms, small_profiles

# T_s = 1 ms; transfers 2, 3, 4 ms; computation 5, 2, 6 ms
SMALL = in_ms(1, [2, 3, 4], [5, 2, 6])


@pytest.mark.parametrize(
    ("batches", "exetime", "executed", "meets"),
    [
        # default: 1 + 9 of one pull, then 13 of computation
        (((1, 3),), 0.023, 0.023, True),
        # (1) 1 + 2, (2) 1 + 7, (3) 2 + 6; the second pull (8) covers C^1 (5), and the computation waits for it
        (((1, 1), (2, 3)), 0.019, 0.019, True),
        # (1) 1 + 5, (2) 1 + 4, (3) 6: 17. Computation 6 to 13 and the pull 6 to 11: (5) fails, 5 < 7, and the third
        # layer computes from 13 to 19: EXETime leaves out 2 ms
        (((1, 2), (3, 3)), 0.017, 0.019, False),
        # pulls end at 3, 7, 12; computation 3 to 8, 8 to 10, 12 to 18; EXETime 3 * 1 + 9 + 6. (5): 4 < 5 fails, but
        # the third pull makes up for it
        (((1, 1), (2, 2), (3, 3)), 0.018, 0.018, False),
    ],
)
def test_by_hand(batches, exetime, executed, meets):
    assert (exetime_s(SMALL, batches), executed_s(SMALL, batches)) == (exetime, executed)
    assert meets_constraint(SMALL, batches) is meets


def test_timeline_of_figure_4():
    found = timeline(SMALL, ((1, 2), (3, 3)))
    ms = [(kind, batch, layer, round(1e3 * start), round(1e3 * end)) for kind, batch, layer, start, end in found]
    assert ms == [
        ("startup", 1, None, 0, 1),
        ("transfer", 1, 1, 1, 3),
        ("transfer", 1, 2, 3, 6),
        ("startup", 2, None, 6, 7),
        ("transfer", 2, 3, 7, 11),
        ("forward", 1, 1, 6, 11),
        ("forward", 1, 2, 11, 13),
        ("forward", 2, 3, 13, 19),
    ]


def test_a_layer_without_parameters_has_no_transfer():
    kinds = [(box.kind, box.layer) for box in timeline(in_ms(0, [2, 0], [1, 1]), ((1, 2),))]
    assert kinds == [("startup", None), ("transfer", 1), ("forward", 1), ("forward", 2)]


@given(any_profiles(), st.data())
def test_against_a_simulation(profile, data):
    batches = data.draw(some_batches(len(profile.transfer_s)))
    assert executed_s(profile, batches) == pytest.approx(float(common.executed(profile, batches)), rel=1e-12)
    assert exetime_s(profile, batches) == pytest.approx(float(common.exetime(profile, batches)), rel=1e-12)


@given(small_profiles(), st.data())
def test_in_whole_milliseconds_nothing_is_rounded(profile, data):
    batches = data.draw(some_batches(len(profile.transfer_s)))
    assert executed_s(profile, batches) == float(common.executed(profile, batches))
    assert exetime_s(profile, batches) == float(common.exetime(profile, batches))
    assert meets_constraint(profile, batches) == common.meets(profile, batches)


@given(any_profiles(), st.data())
def test_exetime_is_never_more_than_executed(profile, data):
    batches = data.draw(some_batches(len(profile.transfer_s)))
    assert exetime_s(profile, batches) <= executed_s(profile, batches)
    if meets_constraint(profile, batches):
        assert exetime_s(profile, batches) == executed_s(profile, batches)
    last = timeline(profile, batches)[-1]
    assert (last.kind, last.end) == ("forward", executed_s(profile, batches))


def some_batches(layers: int) -> st.SearchStrategy:
    cuts = st.sets(st.integers(1, max(layers - 1, 1)))
    ends = cuts.map(lambda chosen: [0, *sorted(cut for cut in chosen if cut < layers), layers])
    return ends.map(lambda found: tuple((start + 1, end) for start, end in pairwise(found)))


def test_equal_times_are_equal_as_they_are_written():
    """As floats 0.1 + 0.2 is more than 0.3, and 0.1 + 0.7 less than 0.8."""
    assert meets_constraint(PullProfile(0.1, (1.0, 0.7), (0.8, 0.0)), ((1, 1), (2, 2)))
    assert meets_constraint(PullProfile(0.0, (1.0, 0.3), (0.1, 0.0)), ((1, 1), (2, 2)))
    assert meets_constraint(PullProfile(0.0, (1.0, 0.3, 1.0), (0.1, 0.2, 0.0)), ((1, 2), (3, 3)))
    assert exetime_s(PullProfile(0.1, (0.2,), (0.0,)), ((1, 1),)) == 0.3
    assert 0.1 + 0.2 != 0.3 and 0.1 + 0.7 < 0.8


def test_ticks_of_very_large_and_very_small_times():
    """1e18 units are all; a time below half a unit counts as none, but the layer has parameters all the same."""
    profile = PullProfile(1e-300, (1e300, 3.0), (0.5, 0.0))
    found, groups = joined(profile)
    assert groups == [(1, 1), (2, 2)] and found.startup == 0 and found.transfer(2, 2) == 0
    assert executed_s(profile, ((1, 1), (2, 2))) == 1e300
    tiny = ticks_of(PullProfile(1e-20, (2e-20,), (3e-20,)))
    assert (tiny.startup, tiny.pulled, tiny.computed, tiny.decimals) == (1, (0, 2), (0, 3), 20)
    assert tiny.seconds(6) == 6e-20
    nothing = PullProfile(0.0, (0.0, 0.0), (0.0, 0.0))
    assert executed_s(nothing, ((1, 2),)) == exetime_s(nothing, ((1, 2),)) == 0.0


@given(any_profiles())
def test_ticks_are_within_an_int64(profile):
    found = ticks_of(profile)
    assert found.layers * found.startup + found.pulled[-1] + found.computed[-1] <= 10**18 + 2 * found.layers
    assert list(found.pulled) == sorted(found.pulled) and list(found.computed) == sorted(found.computed)


@pytest.mark.parametrize(
    "batches",
    [(), ((1, 2),), ((1, 4),), ((2, 3),), ((1, 1), (3, 3)), ((1, 2), (2, 3)), ((1, 3), (4, 3)), ((1, 0), (1, 3))],
)
def test_batches_that_are_no_partition(batches):
    for what in (exetime_s, executed_s, meets_constraint, timeline):
        with pytest.raises(InputError, match="must be all layers from 1 to 3 in order"):
            what(SMALL, batches)


def test_as_text_of_the_paper():
    assert times.as_text(((1, 5), (6, 10), (11, 12))) == "[1, 5], [6, 10], [11, 12]"
