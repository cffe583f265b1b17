"""Closed forms of eager-SGD: what their definitions give by hand."""

from __future__ import annotations

import pytest

from repro.algorithms.timing.eager_forms import MESSAGE_BYTES, staleness_bound
from tests.support.forms import activation_s

ALPHA, BETA = 1e-4, 1e-8


@pytest.mark.parametrize(("p", "messages"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (8, 3), (9, 4), (32, 5)])
def test_an_activation_takes_as_many_messages_as_there_are_dimensions(p, messages):
    assert activation_s(p, ALPHA, BETA) == pytest.approx(messages * (ALPHA + MESSAGE_BYTES * BETA))


@pytest.mark.parametrize(
    ("delays", "rounds"),
    [
        ([[0.0, 0.0]], 1),  # nobody is late: the latency is part of a round
        ([[0.0, 0.3]], 4),  # 0.3 s behind, rounds of 0.1 s
        ([[0.0, 0.3], [0.0, 0.3]], 7),  # it adds up
        ([[0.0, 0.3], [0.3, 0.0]], 4),  # but another's delay does not count twice
        ([[0.1, 0.3], [0.1, 0.1]], 2),  # all are late: only what one is later counts, and rounds take 0.2 s
        ([[0.3, 0.0], [0.0, 0.0], [0.0, 0.5]], 6),  # the worst of the ranks
    ],
)
def test_the_bound_on_staleness_is_the_worst_excess_in_rounds(delays, rounds):
    latency = 0.01  # seconds
    assert staleness_bound(delays, 0.1, 0.0) == rounds
    assert staleness_bound(delays, 0.1, latency) == rounds + 1
