"""Where the papers' headlines lie in the map."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from repro.answers.ranking import paper_places
from repro.answers.ranking.candidates import read_candidates
from repro.answers.ranking.cells import Placed
from repro.answers.ranking.in_map import describe_headline
from repro.answers.ranking.written import read_written


@pytest.mark.parametrize("place", paper_places.PAPER_PLACES, ids=lambda place: place.paper)
def test_the_committed_place_of_a_headline_is_that_of_the_closed_forms(place):
    placed = paper_places.locate_paper(place)
    (committed,) = (one for one in read_written(Placed, "headlines") if one.page == placed.page)
    for name, value in asdict(committed).items():
        assert getattr(placed, name) == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value), name
    assert placed.any_s <= placed.synchronous_s
    assert placed.any_s <= placed.seconds or not read_candidates()[placed.candidate].ranked
    text = describe_headline(placed.page)
    assert f"{placed.gbit:.3g} Gbit/s" in text and read_candidates()[placed.candidate].label in text
