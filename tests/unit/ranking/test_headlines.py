"""Where the papers' headlines lie in the map."""

from __future__ import annotations

import pytest

from repro.ranking import headlines


@pytest.mark.parametrize("headline", headlines.EVERY, ids=lambda one: one.paper)
def test_a_headline_is_placed_on_its_papers_testbed(headline):
    found = headlines.placed(headline)
    assert found.gbit == pytest.approx(8e-9 / headlines.setting_of(headline).testbed.beta_s_per_byte)
    assert found.ratio > 0 and found.any_s <= found.synchronous_s and found.any_s <= found.seconds
    assert found.stops_bits is None or found.stops_bits > 1e9 * found.gbit
