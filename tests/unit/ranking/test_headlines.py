"""Where the papers' headlines lie in the map."""

from __future__ import annotations

import pytest

from repro.ranking import headlines
from repro.ranking.candidates import every
from repro.ranking.cells import Placed
from repro.reports.recommend import in_map, read


@pytest.mark.parametrize("headline", headlines.EVERY, ids=lambda one: one.paper)
def test_a_headline_is_placed_on_its_papers_testbed(headline):
    found = headlines.placed(headline)
    assert found.gbit == pytest.approx(8e-9 / headlines.setting_of(headline).testbed.beta_s_per_byte)
    assert found.ratio > 0 and found.any_s <= found.synchronous_s and found.any_s <= found.seconds
    assert found.stops_bits is None or found.stops_bits > 1e9 * found.gbit


@pytest.mark.parametrize("headline", headlines.EVERY, ids=lambda one: one.paper)
def test_a_papers_page_says_where_its_headline_lies(headline):
    paper = headline.experiment.partition("/")[0]
    (placed,) = (one for one in read(Placed, "headlines") if one.page == paper)
    said = in_map(paper)
    assert f"{placed.gbit:.3g} Gbit/s" in said and every()[placed.candidate].label in said
