"""The pages of a paper from the reference alone, built once for all tests that look at them: those of this folder."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from repro.answers.pages.files import Files
from repro.answers.pages.paper_page import PaperPage
from repro.core.paths import reference_root
from tests.reports.data.undrawn import without_drawing


@pytest.fixture(scope="session")
def reported(tmp_path_factory):
    """Paper -> `out`, its folder; `text` of its page; its `summary` for the overview; `page`. Figures are not drawn."""
    made = {}

    def of(paper):
        if paper not in made:
            out = tmp_path_factory.mktemp(paper)
            page = PaperPage.of(paper, reference_root(), Files(paper, out))
            with pytest.MonkeyPatch.context() as patch:
                without_drawing(patch)
                pages, summary = page.write()
            made[paper] = SimpleNamespace(out=out, text=pages[0].read_text(), summary=summary, page=page)
        return made[paper]

    return of
