"""Sums that were not divided are told from means by the ratios of all ranks at one update."""

from __future__ import annotations

import math

import pytest

from repro.training.first_updates import describe_undivided

SUM = [1.0, 2.0, 1.0]


@pytest.mark.parametrize(("of_ranks", "told"), [
    ([{"weights": SUM}] * 2, {"weights"}),
    ([{"weights": [1.0, 9.0, 0.1]}, {"weights": [1.0, 0.1, 9.0]}], set()),  # a mean of diverging weights
    ([{"weights": [1.0, math.inf]}] * 2, set()),  # diverged
    ([{"gradients": [2.0, 2.0]}] * 2, {"gradients"}),
    ([{"gradients": [2.0, 1.0]}] * 2, set()),
    ([{"gradients": [2.0]}, {}], {"gradients"}),  # a server has none
    ([{}, {}], set()),
])  # fmt: skip
def test_all_ranks_ratios_at_one_update_tell(of_ranks, told):
    assert describe_undivided(of_ranks, 2).keys() == told
