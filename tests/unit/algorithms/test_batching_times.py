"""Times of batches by hand and against simulations, and the dynamic programmes against all partitions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.algorithms.batching.decision import (
    MODES,
    best_batches,
    decide_batches,
    exact_exetime,
    exact_s,
    optimality_gap,
)
from repro.algorithms.batching.profile import PullProfile, layer_groups
from repro.algorithms.batching.times import (
    batch_timeline,
    executed_s,
    exetime_s,
    join_groups,
    meets_constraint,
    ticks_of,
)
from repro.core.errors import InputError
from tests.support import batching as common
from tests.support.batching import any_profiles, in_ms, partitions, small_profiles

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
    boxes = batch_timeline(SMALL, ((1, 2), (3, 3)))
    ms = [(kind, batch, layer, round(1e3 * start), round(1e3 * end)) for kind, batch, layer, start, end in boxes]
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


@given(small_profiles(), st.data())
@settings(max_examples=60)
def test_in_whole_milliseconds_nothing_is_rounded(profile, data):
    batches = data.draw(some_batches(len(profile.transfer_s)))
    assert executed_s(profile, batches) == float(common.executed(profile, batches))
    assert exetime_s(profile, batches) == float(common.exetime(profile, batches))
    assert meets_constraint(profile, batches) == common.meets(profile, batches)


@given(any_profiles(), st.data())
@settings(max_examples=60)
def test_of_any_times(profile, data):
    batches = data.draw(some_batches(len(profile.transfer_s)))
    assert executed_s(profile, batches) == pytest.approx(float(common.executed(profile, batches)), rel=1e-12)
    assert exetime_s(profile, batches) == pytest.approx(float(common.exetime(profile, batches)), rel=1e-12)
    assert exetime_s(profile, batches) <= executed_s(profile, batches)
    if meets_constraint(profile, batches):
        assert exetime_s(profile, batches) == executed_s(profile, batches)
    last = batch_timeline(profile, batches)[-1]
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
    found, groups = join_groups(profile)
    assert groups == [(1, 1), (2, 2)] and found.startup == 0 and found.transfer(2, 2) == 0
    assert executed_s(profile, ((1, 1), (2, 2))) == 1e300
    tiny = ticks_of(PullProfile(1e-20, (2e-20,), (3e-20,)))
    assert (tiny.startup, tiny.pulled, tiny.computed, tiny.decimals) == (1, (0, 2), (0, 3), 20)
    assert tiny.seconds(6) == 6e-20
    nothing = PullProfile(0.0, (0.0, 0.0), (0.0, 0.0))
    assert executed_s(nothing, ((1, 2),)) == exetime_s(nothing, ((1, 2),)) == 0.0


@given(any_profiles())
@settings(max_examples=40)
def test_ticks_are_within_an_int64(profile):
    found = ticks_of(profile)
    assert found.layers * found.startup + found.pulled[-1] + found.computed[-1] <= 10**18 + 2 * found.layers
    assert list(found.pulled) == sorted(found.pulled) and list(found.computed) == sorted(found.computed)


@pytest.mark.parametrize(
    "batches",
    [(), ((1, 2),), ((1, 4),), ((2, 3),), ((1, 1), (3, 3)), ((1, 2), (2, 3)), ((1, 3), (4, 3)), ((1, 0), (1, 3))],
)
def test_batches_that_are_no_partition(batches):
    for what in (exetime_s, executed_s, meets_constraint, batch_timeline):
        with pytest.raises(InputError, match="must be all layers from 1 to 3 in order"):
            what(SMALL, batches)


# --- the dynamic programmes


def allowed(profile: PullProfile):
    """Every partition that leaves layers without parameters with the one before; those at the front are batch 0."""
    found = layer_groups(profile)
    leading = not profile.transfer_s[0] and len(found) > 1
    for batches in partitions(len(found)):
        if not leading or batches[0] == (1, 1):
            yield tuple((found[first - 1][0], found[last - 1][1]) for first, last in batches)


@given(small_profiles())
@settings(max_examples=50)
def test_least_executed_time_of_all(profile):
    """The least over all partitions of the layers, whatever they do to layers without parameters."""
    found = best_batches(profile)
    times = {batches: common.executed(profile, batches) for batches in partitions(len(profile.transfer_s))}
    assert times[found] == min(times.values())
    fewest = min(common.pulls(profile, batches) for batches, seconds in times.items() if seconds == times[found])
    assert common.pulls(profile, found) == fewest


@given(st.integers(1, 3), small_profiles(most=6), st.lists(st.integers(0, 20), min_size=3, max_size=3))
@settings(max_examples=40)
def test_least_executed_time_of_all_behind_layers_without_parameters(leading, behind, computed):
    """Layers at the front that take from no time to longer than all pulls: none of them ever waits for one."""
    profile = replace(
        behind,
        transfer_s=(*[0.0] * leading, *behind.transfer_s),
        forward_s=(*(ms / 1000 for ms in computed[:leading]), *behind.forward_s),
    )
    least = min(common.executed(profile, batches) for batches in partitions(len(profile.transfer_s)))
    found = best_batches(profile)
    assert common.executed(profile, found) == least
    for mode in MODES:
        batches = decide_batches(profile, mode)
        assert mode == "default" or not any(profile.transfer_s[: batches[0][1]]) or not any(profile.transfer_s)
        if len(batches) > 1:  # joined to batch 1, batch 0 would wait for the first pull
            waits = ((1, batches[1][1]), *batches[2:])
            assert common.executed(profile, batches) <= common.executed(profile, waits)


def test_batch_0_computes_at_once():
    """Layer 1, without parameters, computes for 3 s while the others are pulled in 2.1 s: 4.0 s in all."""
    profile = PullProfile(0.1, (0.0, 1.0, 1.0), (3.0, 0.5, 0.5))
    assert best_batches(profile) == ((1, 1), (2, 3)) and exact_s(profile) == 4.0
    assert executed_s(profile, ((1, 3),)) == 6.1 and executed_s(profile, ((1, 2), (3, 3))) == 5.1
    assert {decide_batches(profile, mode) for mode in MODES} == {((1, 3),), ((1, 1), (2, 2), (3, 3)), ((1, 1), (2, 3))}
    # a batch without parameters pays no T_s, wherever it is
    assert executed_s(PullProfile(0.1, (1.0, 0.0), (0.5, 0.5)), ((1, 1), (2, 2))) == 2.1
    boxes = [(box.kind, box.batch, box.start, box.end) for box in batch_timeline(profile, best_batches(profile))]
    assert boxes[0] == ("startup", 1, 0.0, 0.1) and ("forward", 0, 0.0, 3.0) in boxes and boxes[-1][1:] == (1, 3.5, 4.0)


@given(small_profiles(most=8))
@settings(max_examples=50)
def test_least_exetime_of_all_that_meet_the_constraint(profile):
    several = [batches for batches in allowed(profile) if common.pulls(profile, batches) >= 2]
    times = {batches: common.exetime(profile, batches) for batches in several if common.meets(profile, batches)}
    found = exact_exetime(profile)
    if not times:
        assert found is None
        return
    best = [batches for batches, seconds in times.items() if seconds == min(times.values())]
    fewest = [batches for batches in best if len(batches) == min(map(len, best))]
    assert found in fewest and found[-1][0] == max(batches[-1][0] for batches in fewest)


def test_ties():
    """The fewest batches, then the earliest cut."""
    assert best_batches(in_ms(0, [1, 1, 1], [0, 0, 0])) == ((1, 3),)
    profile = in_ms(1, [1, 1, 1], [2, 1, 0])
    times = {batches: executed_s(profile, batches) for batches in partitions(3)}
    best = [batches for batches, seconds in times.items() if seconds == min(times.values())]
    assert best == [((1, 1), (2, 3)), ((1, 2), (3, 3)), ((1, 1), (2, 2), (3, 3))]
    assert best_batches(profile) == ((1, 1), (2, 3))


def test_gap():
    profile = in_ms(1, [2, 3, 4], [5, 2, 6])
    assert exact_s(profile) == 0.018 and optimality_gap(profile, best_batches(profile)) == 0
    assert optimality_gap(profile, ((1, 3),)) == pytest.approx(23 / 18 - 1)
    assert optimality_gap(in_ms(0, [0, 0], [0, 0]), ((1, 2),)) == 0
    with pytest.raises(InputError, match="must be all layers"):
        optimality_gap(profile, ((1, 2),))


@given(any_profiles())
@settings(max_examples=40)
def test_every_mode_is_a_partition_and_none_beats_exact(profile):
    """To the last bit: times are compared as whole numbers and rounded alike."""
    least = exact_s(profile)
    for mode in MODES:
        batches = decide_batches(profile, mode)
        layers = [layer for first, last in batches for layer in range(first, last + 1)]
        assert layers == list(range(1, len(profile.transfer_s) + 1))
        assert executed_s(profile, batches) >= least and optimality_gap(profile, batches) >= 0
        assert all(sum(profile.transfer_s[first - 1 : last]) > 0 for first, last in batches[1:])  # but batch 0


def test_modes_of_figure_4():
    profile = in_ms(1, [0, 2, 0, 3], [1, 1, 1, 1])
    assert decide_batches(profile, "default") == ((1, 4),)
    assert decide_batches(profile, "layerwise") == ((1, 1), (2, 3), (4, 4))
