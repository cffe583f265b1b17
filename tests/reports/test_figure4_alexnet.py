"""The short page of Figure 4's row AlexNet: from made-up runs, and from none."""

from __future__ import annotations

import re

import pytest

from repro.reports import figure4_alexnet, page
from repro.reports.figure4_alexnet import frames
from tests.reports.data import alexnet
from tests.reports.data.summaries import put
from tests.reports.test_reports_page import undrawn

MOST_WORDS = 1000  # of the 4,000 that a page of all rows may have


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "save", undrawn)
        pages, files, line = figure4_alexnet.build(put(out / "results", alexnet.everything()), out)
    return pages[0].read_text(), files, line


def test_it_is_short_and_shows_both_kinds_beside_the_paper(built):
    text, files, line = built
    assert len(text.split()) < MOST_WORDS
    heads = re.findall(r"^\| claim .*$", text, re.MULTILINE)
    assert heads == ["| claim | paper | emulated | simulated | why not, if not |"] * 2
    rows = [row for row in text.splitlines() if row.startswith("| ") and "**" in row]
    assert rows and all(len(row.split(" | ")) == 5 for row in rows)
    assert "not testable here: ImageNet is not on this machine" in text
    assert {path.suffix for path in files} == {".png", ".pdf", ".csv"}
    assert re.search(r"emulated: [\d.]+ \([\d.]+ to [\d.]+\) times as fast, \w+", line)
    for word in re.findall(r"\{\{|\{%|nan", text):
        pytest.fail(word)


def test_every_input_of_a_claim_was_tried_at_both_ends(tmp_path):
    steps = frames.steps(put(tmp_path, alexnet.everything()))
    simulated = set(steps.loc[steps["kind"] == "simulated", "input"]) - {"base"}
    names = {end.rpartition(", ")[0] for end in simulated}
    assert simulated == {f"{name}, {end}" for name in names for end in ("low", "high")}
    variants = set(steps.loc[steps["kind"] == "emulated", "variant"])
    assert all(set(of["variant"]) == variants for _, of in steps.groupby(["kind", "input"]))


def test_without_runs_it_says_what_to_run(tmp_path):
    pages, files, line = figure4_alexnet.build(tmp_path / "none", tmp_path / "out")
    assert "`repro run pipesgd/fig4-alexnet-emulated`" in line and line in pages[0].read_text() and not files
