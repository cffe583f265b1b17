"""The bound on eager-SGD's staleness, by hand."""

from __future__ import annotations

import pytest

from tests.support.forms import staleness_bound


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
def test_bound_is_the_worst_excess_in_rounds(delays, rounds):
    assert staleness_bound(delays, 0.1, 0.0) == rounds
    assert staleness_bound(delays, 0.1, 0.01) == rounds + 1
