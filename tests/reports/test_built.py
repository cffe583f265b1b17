"""A page or figure is built again if something of it changed, and only then."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from repro.answers.pages import files
from repro.answers.pages.build import build, build_overview
from repro.answers.pages.built import FOLDER, Built, inputs
from repro.answers.site.build import build_html_site
from repro.records import sweep
from tests.reports.data.summaries import make, put
from tests.reports.data.undrawn import undrawn, without_drawing


@pytest.fixture
def drawn(monkeypatch):
    """Names of figures, as they are drawn."""
    names = []

    def save(figure, stem, *suffixes):
        names.append(stem.name)
        return undrawn(figure, stem, *suffixes)

    without_drawing(monkeypatch)
    monkeypatch.setattr(files, "save", save)
    return names


def test_nothing_is_built_again_whose_inputs_are_the_same(tmp_path, drawn):
    results = put(tmp_path / "results", [make("D-Sync", "simulated"), make("Pipe-SGD", "simulated")])
    out, lines = tmp_path / "out", []
    first = build("pipesgd", results, out, lines.append)
    assert drawn and lines
    before = {path: path.stat().st_mtime_ns for path in first}
    drawn.clear()
    lines.clear()
    assert build("pipesgd", results, out, lines.append) == first
    assert {path: path.stat().st_mtime_ns for path in first} == before and not drawn and not lines


def test_draws_of_the_workspace_are_inputs_of_the_page(tmp_path):
    results = put(tmp_path / "results", [make("D-Sync", "simulated")])
    before = inputs("pipesgd", results)
    (folder,) = {path.parent for path in results.rglob("summary.json")}
    (folder / sweep.FILE).write_text("{}")
    assert inputs("pipesgd", results) != before


def test_figures_are_pdfs_too_from_when_that_is_asked_for(tmp_path, drawn):
    results, out = put(tmp_path / "results", [make("D-Sync"), make("Pipe-SGD")]), tmp_path / "out"
    (page, *first) = build("pipesgd", results, out)
    assert not [path for path in first if path.suffix == ".pdf"] and "[PDF]" not in page.read_text()
    (page, *both) = build("pipesgd", results, out, pdf=True)
    of = {suffix: {path.stem for path in both if path.suffix == suffix} for suffix in (".png", ".pdf")}
    assert (
        of[".pdf"] == {name for name in of[".png"] if not name.endswith("-narrow")}
        and "[PDF](figures/pipesgd/" in page.read_text()
    )
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


def test_changed_files_are_built_again(tmp_path, drawn):
    results, out = put(tmp_path / "results", [make("D-Sync")]), tmp_path / "out"
    (page, *_) = build("pipesgd", results, out)
    text, record = page.read_text(), out / FOLDER / "pipesgd.json"
    for change in (
        page.unlink,
        lambda: page.write_text("mine"),
        lambda: record.write_text(json.dumps({"inputs": 1, "more": 2})),
    ):
        change()
        build("pipesgd", results, out)
        assert page.read_text() == text and "more" not in json.loads(record.read_bytes())


def test_a_summary_may_be_infinite(tmp_path):
    """As the end of an interval may be: the page is not built again for it."""
    made = Built("gtopk", tmp_path, summary={"headlines": [{"low": 1.0, "high": math.inf}]})
    made.keep()
    assert Built.before("gtopk", tmp_path) == made


def test_the_overview_has_the_pages_that_stand_there_though_runs_came_since(tmp_path, drawn):
    """And no link of theirs is dead, though nothing of theirs could not be tried."""
    results, out = put(tmp_path / "results", [make("D-Sync")]), tmp_path / "out"
    build("pipesgd", results, out)
    put(tmp_path / "since", [make("Pipe-SGD")])
    (tmp_path / "since/pipesgd").rename(results / "pipesgd/since")
    build_overview(out)
    assert "pipesgd" not in (out / "index.md").read_text().split("Not built here yet")[1].splitlines()[0]
    assert "One paper" in (out / "index.md").read_text() and build_html_site(out, tmp_path / "nowhere").warnings == []
    (out / "pipesgd.md").unlink()
    build_overview(out)
    assert " pipesgd" in (out / "index.md").read_text().split("Not built here yet")[1].splitlines()[0]
