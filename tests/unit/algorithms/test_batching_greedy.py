"""Algorithms 1 and 2 of iBatch: examples by hand, line by line, and our decisions where the paper is ambiguous."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings

from repro.algorithms.batching.decision import (
    algorithm1,
    algorithm2,
    best_batches,
    exact_exetime,
    exact_s,
    greedy_batches,
)
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import executed_s, exetime_s, meets_constraint
from tests.support.batching import in_ms, small_profiles

# The first example, like a convolutional network: computation first, parameters last. In ms, T_s = 1.
#   layer               1  2  3  4  5  6
#   T_t                 1  1  2  3  6  4     T_t(1..i): 1, 2, 4, 7, 13, 17
#   C                   4  3  3  2  1  1     C(1..i):   4, 7, 10, 12, 13, 14
ONE = 1, [1, 1, 2, 3, 6, 4], [4, 3, 3, 2, 1, 1]
# The second, in which both algorithms repeat, Algorithm 1 without any l_x that meets line 10.
#   T_t                 2  1  2  3  6  4     T_t(1..i): 2, 3, 5, 8, 14, 18
#   C                   2  3  4  6  3  1     C(1..i):   2, 5, 9, 15, 18, 19
TWO = 1, [2, 1, 2, 3, 6, 4], [2, 3, 4, 6, 3, 1]


@pytest.mark.parametrize(
    ("example", "decided", "batches", "exetime", "executed"),
    [
        # line 3 leaves (1, 3..6), (2, 5..6), (3, 5..6); line 4: C(1..3) = 10; line 11: 10 - 10 before 14 - 10, l_2 = 5
        # pulls end at 5, 15, 20; computation 5 to 15, 15 to 18, 20 to 21
        (ONE, algorithm1, ((1, 3), (4, 5), (6, 6)), 0.021, 0.021),
        # line 4: C(1..3) = 10 is the most, of (3, 0) alone, so that nothing is left to repeat
        (ONE, algorithm2, ((1, 3), (4, 6)), 0.023, 0.023),
        # lines 4 and 11: C(1..3) = 9, 10 - 9 before 14 - 9; line 10: 5 < 9, nothing meets it: the rest is one batch
        # pulls end at 6, 16, 21; computation 6 to 15, 16 to 25, 25 to 26: EXETime leaves out 4 ms
        (TWO, algorithm1, ((1, 3), (4, 5), (6, 6)), 0.022, 0.026),
        # line 4: C(3..4) = 10, of (4, 2) alone; lines 10 and 11: 6 - 5 before 6 - 3: l_k = 0
        (TWO, algorithm2, ((1, 2), (3, 4), (5, 6)), 0.025, 0.025),
        # line 3 leaves (1, 2..4); line 11: 2 - 2; line 10: C(2..2) = 3, not C(1..2) = 5: 3 - 3 before 4 - 3
        ((0, [1, 2, 3, 1], [2, 3, 1, 1]), algorithm1, ((1, 1), (2, 2), (3, 3), (4, 4)), 0.008, 0.008),
    ],
)
def test_by_hand(example, decided, batches, exetime, executed):
    profile = in_ms(*example)
    assert decided(profile) == batches
    assert (exetime_s(profile, batches), executed_s(profile, batches)) == (exetime, executed)
    assert meets_constraint(profile, batches) == (exetime == executed)


def test_the_better_of_the_two_by_the_papers_own_time():
    """EXETime (22 and 25 ms) takes Algorithm 1's batches; executed, 26 and 25 ms, Algorithm 2's would be better, and
    exact's 24 better still."""
    profile = in_ms(*TWO)
    assert greedy_batches(profile) == algorithm1(profile)
    assert (
        executed_s(profile, greedy_batches(profile))
        > executed_s(profile, algorithm2(profile))
        > exact_s(profile)
        == 0.024
    )
    assert best_batches(profile) == ((1, 2), (3, 4), (5, 5), (6, 6))


def test_a_tie_between_the_two_is_algorithm_1s():
    profile = in_ms(0, [1, 1, 1], [1, 1, 1])
    # Algorithm 1: C(1..1) = 1 <= T_t(2..2), C(1..2) = 2 > T_t(3..3): [1], [2], then [3]
    # Algorithm 2: (2, 1) has 1, (1, 0) has 1; the smaller last batch: [3], then [2], [1]
    assert algorithm1(profile) == algorithm2(profile) == greedy_batches(profile) == ((1, 1), (2, 2), (3, 3))
    # Algorithm 1: (1, 2) has 2 >= 2 and the least difference, then [3]: 3 + 3 + 1
    # Algorithm 2: (1, 0) overlaps the most, 2: 2 + 3 + 2
    other = in_ms(1, [1, 1, 1], [2, 1, 1])
    assert algorithm1(other) == ((1, 1), (2, 2), (3, 3)) and algorithm2(other) == ((1, 1), (2, 3))
    assert exetime_s(other, algorithm1(other)) == exetime_s(other, algorithm2(other)) == 0.007
    assert greedy_batches(other) == algorithm1(other)


@pytest.mark.parametrize("decided", [algorithm1, algorithm2, greedy_batches])
def test_small_networks(decided):
    """One layer, or parameters in one alone: nothing to cut. Two: the algorithms always cut."""
    assert decided(in_ms(1, [2], [3])) == ((1, 1),)
    assert decided(in_ms(1, [2, 0], [3, 3])) == ((1, 2),)
    assert decided(in_ms(1, [0, 2, 0], [3, 3, 3])) == ((1, 1), (2, 3))
    assert decided(in_ms(1, [0, 0], [3, 3])) == ((1, 2),)
    assert decided(in_ms(9, [1, 1], [1, 1])) == ((1, 1), (2, 2))
    assert decided(in_ms(0, [1, 1], [9, 9])) == ((1, 1), (2, 2))


def test_the_algorithms_may_be_worse_than_the_default():
    profile = in_ms(9, [1, 1], [1, 1])
    assert (
        executed_s(profile, greedy_batches(profile)) == 0.021
        and best_batches(profile) == ((1, 2),)
        and exact_s(profile) == 0.013
    )


@given(small_profiles(zeros=False))
@settings(max_examples=30)
def test_behind_batch_0_they_decide_as_without_it(profile):
    """Layers at the front without parameters, which take 9 ms: the cuts are those of the layers that are pulled."""
    longer = replace(profile, transfer_s=(0.0, 0.0, *profile.transfer_s), forward_s=(0.004, 0.005, *profile.forward_s))
    for decided in (algorithm1, algorithm2, greedy_batches):
        assert decided(longer) == ((1, 2), *((first + 2, last + 2) for first, last in decided(profile)))


def test_no_pair_meets_the_constraint():
    """C^1 = 9 outlasts every pull, T_s + T_t(2..3) = 3."""
    profile = in_ms(1, [1, 1, 1], [9, 8, 9])
    assert algorithm1(profile) == ((1, 1), (2, 3))  # 3 - 9, nearest to 0 of all pairs
    # pairs (1, 0): 3 - 9; (2, 1): 2 - 8; (2, 0): 2 - 17. Two are as near; line 4 takes C^1 = 9, then nothing is left
    assert algorithm2(profile) == ((1, 1), (2, 3))
    assert executed_s(profile, greedy_batches(profile)) == exact_s(profile) == 0.028  # T_s + T_t^1 + all C
    assert exetime_s(profile, greedy_batches(profile)) == 0.022


def test_no_layer_meets_line_10_of_algorithm_2():
    """The batch of the layer alone is nearest: its computation is longer than the pull behind it."""
    profile = in_ms(0, [1, 9, 1, 4], [1, 7, 5, 1])
    # (3, 2): pull 4 < 5; (2, 1): pull 5 < 7; (2, 0): 5 < 8; (1, 0): pull 14 >= 1: l_{N-1} = 1
    assert algorithm2(profile) == ((1, 1), (2, 4))
    # (4, 3): pull 8 >= 7 is the most; then C^3 = 10 > T_t(4..4) = 1: [3, 3] alone; then T_t(3..3) = 5 >= C(1..2) = 2
    profile = in_ms(0, [1, 1, 5, 1, 8], [1, 1, 10, 7, 1])
    assert algorithm2(profile) == ((1, 2), (3, 3), (4, 4), (5, 5))


def test_line_5_of_algorithm_2():
    """C(2..3) and C(4..4) overlap as much, 4 ms: (3, 1) and (4, 3); the last batch takes 5 ms behind layer 3, 1 ms
    behind layer 4."""
    # (1, 0): 8 < 9; (2, 1): 7 >= 2; (3, 1): 6 >= 4; (4, 3): 5 >= 4, (4, 2): 5 < 6. Then pulls of 3 ms: [3], [2], [1]
    profile = in_ms(2, [1, 1, 1, 1, 3], [9, 2, 2, 4, 1])
    assert algorithm2(profile) == ((1, 1), (2, 2), (3, 3), (4, 4), (5, 5))


def test_layers_that_take_no_time_join_the_larger_batch():
    """A tie of line 11: layer 1 hides nothing more, and a batch of its own would cost a T_s."""
    assert algorithm2(in_ms(1, [1, 1, 1, 1], [0, 1, 2, 1])) == ((1, 2), (3, 3), (4, 4))


def test_decimals_as_they_are_written():
    """As floats 0.1 + 0.2 > 0.3: with rounding errors no pair but [1], [2, 3] would meet (5)."""
    assert algorithm1(PullProfile(0.0, (0.1, 0.1, 0.3), (0.1, 0.2, 0.0))) == ((1, 2), (3, 3))


@given(small_profiles(zeros=False))
@settings(max_examples=50)
def test_every_choice_meets_the_constraint_or_nothing_could(profile):
    """Where (5) fails, Algorithm 1 has nothing left to pull, and Algorithm 2 no less to compute than the last layer."""
    layers = len(profile.transfer_s)
    for decided in (algorithm1, algorithm2):
        batches = decided(profile)
        assert len(batches) >= min(layers, 2)
        for (first, last), behind in pairwise(batches):
            pull = round(1000 * (profile.startup_s + sum(profile.transfer_s[behind[0] - 1 : behind[1]])))
            if pull < round(1000 * sum(profile.forward_s[first - 1 : last])):
                if decided is algorithm1:
                    assert behind[1] == layers
                else:
                    assert not any(profile.forward_s[first - 1 : last - 1])


@given(small_profiles(zeros=False))
@settings(max_examples=30)
def test_where_no_pair_meets_it_both_are_optimal(profile):
    """The first layer, then every layer, made so slow that no pull covers its computation."""
    layers, slow = len(profile.transfer_s), 1.0
    if layers > 1:
        first = replace(profile, forward_s=(slow, *profile.forward_s[1:]))
        assert algorithm1(first) == ((1, 1), (2, layers)) and exact_exetime(first) is None
        assert executed_s(first, algorithm1(first)) == exact_s(first)
        every = replace(profile, forward_s=tuple(slow + seconds for seconds in profile.forward_s))
        assert executed_s(every, algorithm2(every)) == executed_s(every, greedy_batches(every)) == exact_s(every)


@given(small_profiles())
@settings(max_examples=50)
def test_greedy_takes_the_less_exetime_and_never_beats_exact(profile):
    first, second, chosen = algorithm1(profile), algorithm2(profile), greedy_batches(profile)
    assert chosen == (first if exetime_s(profile, first) <= exetime_s(profile, second) else second)
    assert executed_s(profile, chosen) >= exact_s(profile)
    if meets_constraint(profile, chosen):
        assert executed_s(profile, chosen) == min(executed_s(profile, first), executed_s(profile, second))
