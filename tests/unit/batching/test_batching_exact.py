"""The dynamic programmes of iBatch's problem against every partition there is, and what ties choose."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.batching.exact import exact, exact_exetime, exact_s, gap
from repro.batching.modes import MODES, decide
from repro.batching.profile import PullProfile, groups
from repro.batching.times import executed_s, exetime_s, meets_constraint, timeline
from repro.common.errors import InputError
from tests.support import batching as common
from tests.support.batching import any_profiles, in_ms, partitions, small_profiles


def allowed(profile: PullProfile):
    """Every partition that leaves layers without parameters with the one before; those at the front are batch 0."""
    found = groups(profile)
    leading = not profile.transfer_s[0] and len(found) > 1
    for batches in partitions(len(found)):
        if not leading or batches[0] == (1, 1):
            yield tuple((found[first - 1][0], found[last - 1][1]) for first, last in batches)


@given(small_profiles())
def test_least_executed_time_of_all(profile):
    """The least over all partitions of the layers, whatever they do to layers without parameters."""
    found = exact(profile)
    times = {batches: common.executed(profile, batches) for batches in partitions(len(profile.transfer_s))}
    assert times[found] == min(times.values())
    fewest = min(common.pulls(profile, batches) for batches, seconds in times.items() if seconds == times[found])
    assert common.pulls(profile, found) == fewest


@given(st.integers(1, 3), small_profiles(most=6), st.lists(st.integers(0, 20), min_size=3, max_size=3))
def test_least_executed_time_of_all_behind_layers_without_parameters(leading, behind, computed):
    """Layers at the front that take from no time to longer than all pulls: none of them ever waits for one."""
    profile = replace(
        behind,
        transfer_s=(*[0.0] * leading, *behind.transfer_s),
        forward_s=(*(ms / 1000 for ms in computed[:leading]), *behind.forward_s),
    )
    least = min(common.executed(profile, batches) for batches in partitions(len(profile.transfer_s)))
    found = exact(profile)
    assert common.executed(profile, found) == least
    for mode in MODES:
        batches = decide(profile, mode)
        assert mode == "default" or not any(profile.transfer_s[: batches[0][1]]) or not any(profile.transfer_s)
        if len(batches) > 1:  # joined to batch 1, batch 0 would wait for the first pull
            waits = ((1, batches[1][1]), *batches[2:])
            assert common.executed(profile, batches) <= common.executed(profile, waits)


def test_batch_0_computes_at_once():
    """Layer 1, without parameters, computes for 3 s while the others are pulled in 2.1 s: 4.0 s in all."""
    profile = PullProfile(0.1, (0.0, 1.0, 1.0), (3.0, 0.5, 0.5))
    assert exact(profile) == ((1, 1), (2, 3)) and exact_s(profile) == 4.0
    assert executed_s(profile, ((1, 3),)) == 6.1 and executed_s(profile, ((1, 2), (3, 3))) == 5.1
    assert {decide(profile, mode) for mode in MODES} == {((1, 3),), ((1, 1), (2, 2), (3, 3)), ((1, 1), (2, 3))}
    # a batch without parameters pays no T_s, wherever it is
    assert executed_s(PullProfile(0.1, (1.0, 0.0), (0.5, 0.5)), ((1, 1), (2, 2))) == 2.1
    boxes = [(box.kind, box.batch, box.start, box.end) for box in timeline(profile, exact(profile))]
    assert boxes[0] == ("startup", 1, 0.0, 0.1) and ("forward", 0, 0.0, 3.0) in boxes and boxes[-1][1:] == (1, 3.5, 4.0)


def test_constraint_5_of_batch_0():
    """It fails where the first pull is shorter than batch 0's computation, and EXETime then leaves that out."""
    profile = in_ms(1, [0, 2, 3], [2, 4, 1])
    assert meets_constraint(profile, ((1, 1), (2, 2), (3, 3))) and exact_exetime(profile) == ((1, 1), (2, 2), (3, 3))
    assert exetime_s(profile, ((1, 1), (2, 2), (3, 3))) == executed_s(profile, ((1, 1), (2, 2), (3, 3))) == 0.008
    slower = in_ms(1, [0, 2, 3], [9, 4, 1])
    assert not meets_constraint(slower, ((1, 1), (2, 3))) and exact_exetime(slower, fewest=1) is None
    assert (exetime_s(slower, ((1, 1), (2, 3))), executed_s(slower, ((1, 1), (2, 3)))) == (0.011, 0.014)


@given(any_profiles(most=9))
def test_of_any_times(profile):
    least = min(common.executed(profile, batches) for batches in partitions(len(profile.transfer_s)))
    assert executed_s(profile, exact(profile)) == pytest.approx(float(least), rel=1e-12)


@given(small_profiles())
def test_least_exetime_of_all_that_meet_the_constraint(profile):
    feasible = {
        batches: common.exetime(profile, batches) for batches in allowed(profile) if common.meets(profile, batches)
    }
    for fewest in (1, 2):
        times = {batches: s for batches, s in feasible.items() if common.pulls(profile, batches) >= fewest}
        found = exact_exetime(profile, fewest)
        if not times:
            assert found is None and (fewest == 2 or not profile.transfer_s[0])
            continue
        least = min(times.values())
        best = [batches for batches, seconds in times.items() if seconds == least]
        assert found in best and len(found) == min(map(len, best))


def test_no_batches_meet_the_constraint():
    """The computation of the first layer alone outlasts every pull."""
    profile = in_ms(1, [1, 1, 1], [9, 9, 9])
    assert exact_exetime(profile) is None and exact_exetime(profile, fewest=1) == ((1, 3),)
    assert exact_exetime(in_ms(1, [1], [9])) is None


def test_ties():
    """The fewest batches, then the earliest cut."""
    assert exact(in_ms(0, [1, 1, 1], [0, 0, 0])) == ((1, 3),)
    profile = in_ms(1, [1, 1, 1], [2, 1, 0])
    times = {batches: executed_s(profile, batches) for batches in partitions(3)}
    best = [batches for batches, seconds in times.items() if seconds == min(times.values())]
    assert best == [((1, 1), (2, 3)), ((1, 2), (3, 3)), ((1, 1), (2, 2), (3, 3))]
    assert exact(profile) == ((1, 1), (2, 3))


def test_gap():
    profile = in_ms(1, [2, 3, 4], [5, 2, 6])
    assert exact_s(profile) == 0.018 and gap(profile, exact(profile)) == 0
    assert gap(profile, ((1, 3),)) == pytest.approx(23 / 18 - 1)
    assert gap(in_ms(0, [0, 0], [0, 0]), ((1, 2),)) == 0
    with pytest.raises(InputError, match="must be all layers"):
        gap(profile, ((1, 2),))


def test_200_layers_are_decided_in_no_time():
    """By the time of this process alone: 0.04 s; a search over all batches would not end."""
    draw = random.Random(1)
    profile = PullProfile(0.1, tuple(draw.random() for _ in range(200)), tuple(draw.random() for _ in range(200)))
    began = time.process_time()
    found = exact(profile), exact_exetime(profile)
    assert time.process_time() - began < 20
    assert executed_s(profile, found[0]) <= executed_s(profile, found[1]) <= executed_s(profile, ((1, 200),))
    assert exetime_s(profile, found[1]) == executed_s(profile, found[1])


@given(any_profiles())
def test_every_mode_is_a_partition_and_none_beats_exact(profile):
    """To the last bit: times are compared as whole numbers and rounded alike."""
    least = exact_s(profile)
    for mode in MODES:
        batches = decide(profile, mode)
        layers = [layer for first, last in batches for layer in range(first, last + 1)]
        assert layers == list(range(1, len(profile.transfer_s) + 1))
        assert executed_s(profile, batches) >= least and gap(profile, batches) >= 0
        assert all(sum(profile.transfer_s[first - 1 : last]) > 0 for first, last in batches[1:])  # but batch 0


def test_unknown_mode():
    with pytest.raises(InputError, match="unknown mode 'gready'; valid: greedy"):
        decide(in_ms(1, [1], [1]), "gready")


def test_modes_of_figure_4():
    profile = in_ms(1, [0, 2, 0, 3], [1, 1, 1, 1])
    assert decide(profile, "default") == ((1, 4),)
    assert decide(profile, "layerwise") == ((1, 1), (2, 3), (4, 4))
