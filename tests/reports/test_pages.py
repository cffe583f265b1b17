"""What all pages have in common: few words, only their own figures, the same bytes, what they say without results."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from repro.common.errors import InputError
from repro.common.paths import reference_root
from repro.reports import overview, paper_page
from repro.reports.build import ACROSS, PAPERS, build, page
from tests.reports.data.summaries import make, put
from tests.reports.data.undrawn import without_drawing

WORDS = 4000  # of a paper's page


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """All pages from the reference alone, figures not drawn."""
    out = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        without_drawing(patch)
        made = {name: page(name, reference_root(), out) for name in (*PAPERS, *ACROSS)}
        overview.build({name: said for name, (_, _, said) in made.items()}, out)
    return out, [path for pages, _, _ in made.values() for path in pages]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_page_is_short_and_shows_what_is_there(built, paper):
    out, written = built
    text = (out / f"{paper}.md").read_text()
    assert len(text.split()) <= WORDS
    assert "not run yet" not in text and "None" not in text and "nan" not in re.findall(r"\w+", text)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert target.startswith(("https://", "#")) or (out / target).exists(), target
    assert {path.stem for path in written} >= {paper, f"{paper}-claims", f"{paper}-provenance"}
    every = (out / f"{paper}-claims.md").read_text()
    judged = asked(paper).by_claim
    assert all(of_kinds[0].claim.text.split("|")[0][:40] in plain(every) for of_kinds in judged.values())


@cache
def asked(paper):
    """The page's own view of its claims, judged once."""
    return paper_page.PaperPage.of(paper, reference_root(), Path("nowhere"))


def plain(text):
    return re.sub(r"&lt;", "<", re.sub(r"&gt;", ">", re.sub(r"&#42;", "*", text.replace("&amp;", "&"))))


@pytest.mark.parametrize("paper", PAPERS)
def test_headlines_are_few_have_a_scope_and_say_why_not(paper):
    page = asked(paper)
    headlines = [of_kinds for of_kinds in page.by_claim.values() if of_kinds[0].claim.headline]
    assert 0 < len(headlines) <= 12
    for of_kinds in headlines:
        claim = of_kinds[0].claim
        assert claim.scope or page.file.scope, claim.id
        judged = [one for one in of_kinds if one.verdict.judged and not one.verdict.settled]
        assert not judged or any(claim.id in reason.claims for reason in page.file.reasons), claim.id
        assert all(one.kind != "measured, padded" or not one.verdict.settled for one in of_kinds), claim.id


def test_the_overview_is_one_screen(built):
    out, _ = built
    text = (out / "index.md").read_text()
    assert len(text.split()) <= 500
    for paper, (short, _) in PAPERS.items():
        assert f"[{short}]({paper}.md)" in text
    assert all(f"({name}.md)" in text for name in ACROSS)


@pytest.mark.parametrize("name", [*PAPERS, *ACROSS])
def test_without_results_a_page_says_so(tmp_path, monkeypatch, name):
    without_drawing(monkeypatch)
    pages, _, _ = page(name, put(tmp_path / "results", []), tmp_path / "out")
    text = pages[0].read_text()
    assert "not run yet" in text or "No results yet" in text
    assert name not in PAPERS or f"make reproduce-{name}" in text


def test_the_same_results_give_the_same_bytes_and_old_figures_go(tmp_path):
    results = put(tmp_path / "results", [make("D-Sync"), make("Pipe-SGD")])
    first = {path.name: path.read_bytes() for path in build("pipesgd", results, tmp_path / "a")}
    old = tmp_path / "b" / "figures" / "pipesgd" / "old.png"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"")
    second = {path.name: path.read_bytes() for path in build("pipesgd", results, tmp_path / "b")}
    assert first == second and not old.exists()


def test_bad_input_is_one_line(tmp_path):
    with pytest.raises(InputError, match="unknown paper 'pipe'"):
        build("pipe", tmp_path, tmp_path / "out")
    results = put(tmp_path / "results", [make("D-Sync")])
    (summary,) = results.rglob("summary.json")
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"kind": "guessed"}))
    with pytest.raises(InputError, match="kind 'guessed'") as caught:
        build("pipesgd", results, tmp_path / "out")
    assert str(summary) in str(caught.value) and "\n" not in str(caught.value)


def test_reports_import_neither_training_nor_tracking():
    code = "import sys; import repro.reports.build, repro.reports.paper_page; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "mlflow", "mpi4py", "repro.strategies", "repro.training"} & set(loaded)


def test_a_strategy_of_ones_own_is_a_curve_among_the_papers(tmp_path):
    own = make("D-Sync", "simulated", best=0.5) | {"setting": "mine", "strategy": "mine"}
    longer = make("D-Sync", "simulated", epochs=30) | {"setting": "longer", "strategy": "mine"}
    results = put(tmp_path / "results", [make("D-Sync", "simulated"), own, longer])
    build("pipesgd", results, tmp_path / "out")
    drawn = pd.read_csv(tmp_path / "out" / "figures" / "pipesgd" / "curves.csv")
    assert set(drawn["variant"]) == {"D-Sync", "mine"}
    assert drawn[drawn["variant"] == "mine"]["top1"].max() == pytest.approx(0.5, abs=1e-3)
