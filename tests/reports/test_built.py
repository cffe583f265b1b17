"""A page, and a figure, is built again where something of it changed, and only there."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from repro.answers.pages import files
from repro.answers.pages.build import build
from repro.answers.pages.built import FOLDER, Built
from tests.reports.data.summaries import make, put
from tests.reports.data.undrawn import undrawn, without_drawing


@pytest.fixture
def drawn(monkeypatch):
    """Names of figures, as they are drawn."""
    names = []

    def save(figure, stem, suffixes):
        names.append(stem.name)
        return undrawn(figure, stem, suffixes)

    without_drawing(monkeypatch)
    monkeypatch.setattr(files, "save", save)
    return names


def test_nothing_is_built_again_whose_inputs_are_the_same(tmp_path, drawn):
    results = put(tmp_path / "results", [make("D-Sync", "simulated"), make("Pipe-SGD", "simulated")])
    out, said = tmp_path / "out", []
    first = build("pipesgd", results, out, said.append)
    assert drawn and said
    before = {path: path.stat().st_mtime_ns for path in first}
    drawn.clear()
    said.clear()
    assert build("pipesgd", results, out, said.append) == first
    assert {path: path.stat().st_mtime_ns for path in first} == before and not drawn and not said


def test_figures_are_pdfs_too_from_when_that_is_asked_for(tmp_path, drawn):
    results, out = put(tmp_path / "results", [make("D-Sync"), make("Pipe-SGD")]), tmp_path / "out"
    (page, *first) = build("pipesgd", results, out)
    assert not [path for path in first if path.suffix == ".pdf"] and "[PDF]" not in page.read_text()
    (page, *both) = build("pipesgd", results, out, pdf=True)
    of = {suffix: {path.stem for path in both if path.suffix == suffix} for suffix in (".png", ".pdf")}
    assert of[".pdf"] == of[".png"] and "[PDF](figures/pipesgd/" in page.read_text()
    assert build("pipesgd", results, out) == [page, *both]


def test_another_result_builds_the_page_and_draws_what_shows_it(tmp_path, drawn):
    every = [make("D-Sync", "simulated"), make("Pipe-SGD", "simulated")]
    results, out = put(tmp_path / "results", every), tmp_path / "out"
    build("pipesgd", results, out)
    first = set(drawn)
    drawn.clear()
    put(results, [make("D-Sync", "simulated", seed=5) | {"experiment": "other"}])
    build("pipesgd", results, out)
    assert "other" in (out / "pipesgd-provenance.md").read_text() and not drawn
    shutil.rmtree(results)
    put(results, [make("D-Sync", "simulated", best=0.5), *every[1:]])
    build("pipesgd", results, out)
    assert drawn and set(drawn) < first


@pytest.mark.parametrize("change", ["gone", "edited", "record"])
def test_what_somebody_changed_is_built_again(tmp_path, drawn, change):
    results, out = put(tmp_path / "results", [make("D-Sync")]), tmp_path / "out"
    (page, *_) = build("pipesgd", results, out)
    text = page.read_text()
    if change == "record":
        (out / FOLDER / "pipesgd.json").write_text(json.dumps({"inputs": 1, "more": 2}))
    elif change == "edited":
        page.write_text("mine")
    else:
        page.unlink()
    build("pipesgd", results, out)
    assert page.read_text() == text


def test_what_a_page_says_of_itself_may_be_infinite(tmp_path):
    """As the end of an interval may be: the page is not built again for it."""
    made = Built("gtopk", tmp_path, said={"headlines": [{"low": 1.0, "high": math.inf}]})
    made.keep()
    assert Built.before("gtopk", tmp_path) == made
