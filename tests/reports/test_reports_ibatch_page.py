"""The iBatch page as a whole: every figure and table, any subset of results, the same bytes twice."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from repro.reports import ibatch as ibatch_page
from repro.reports import page
from repro.reports.batched_pulls import MODES
from repro.reports.ibatch.experiments import (
    FIG6,
    IMPLIED,
    SHOWN,
    files,
)
from tests.reports.data import ibatch as made
from tests.reports.data.summaries import put
from tests.reports.test_reports_page import undrawn

# --- the page


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A page with results for every section, its figures not drawn."""
    root = tmp_path_factory.mktemp("ibatch")
    results = put(root / "results", made.everything(seeds=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "save", undrawn)
        return results, root / "out", ibatch_page.build(results, root / "out")


def test_every_figure_and_table_is_written(whole):
    _, out, (pages, others, state) = whole
    names = {path.relative_to(out).as_posix() for path in others}
    assert [path.name for path in pages] == ["ibatch.md", "ibatch.html"] and len(names) == len(others)
    figures = [f"{name}{of}" for name in ("fig3", "fig4", "fig5", "fig6", "fig7", "beyond") for of in ("", IMPLIED)]
    figures += ["gap", "gap-random", "predicted", "sync-simulated"]
    for name in ("vgg", "googlenet"):
        figures += [f"measured-{name}-{place}-cpu-2core-synthetic" for place in ("here", "shaped-1g")]
    for figure in figures:
        for suffix in (".png", ".pdf", ".csv"):
            assert f"figures/ibatch/{figure}{suffix}" in names, figure
    assert {n for n in names if n.endswith(".png")} == {f"figures/ibatch/{figure}.png" for figure in figures}
    for mode in MODES:
        assert f"figures/ibatch/trace-fig4-{mode}.json" in names
    for table in ("claims", "headlines", "arithmetic", "saved", "gap", "speedups-fig5", "reference"):
        assert f"tables/ibatch/{table}.tex" in names
    text = (out / "ibatch.md").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link.startswith("#") or (out / link).is_file(), link
    assert "not run yet" not in text and set(state["experiments"]) == set(SHOWN) and not state["standins"]
    html = (out / "ibatch.html").read_text()
    assert not re.search(r"https?://|<script|<link", html)
    linked = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert linked and linked <= set(re.findall(r'id="([^"]+)"', html))
    for tex in (out / "tables/ibatch").glob("*.tex"):
        assert tex.read_text().isascii(), tex


def test_the_page_s_order_captions_and_labels(whole):
    _, out, (_, _, state) = whole
    text = (out / "ibatch.md").read_text()
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles[:13] == [
        "Results at a glance", "What does not add up", "Figure 3", "Figure 4", "Figure 5", "Figure 6", "Figure 7",
        "Greedy and exact", "Predicted against executed time", "Measured here", "Beyond the paper", "BSP, SSP and ASP",
        "Claims",
    ]  # fmt: skip
    captions = re.findall(r"^\*[^*\n].*\*$", text, re.MULTILINE)[1:]
    assert captions and all("**measured**" in c or "**simulated**" in c for c in captions)
    assert {v.label for v in state["verdicts"] if v.group is not None} == {"matches", "same direction", "differs"}
    for part in ("[1, 1], [2, 7], [8, 12]", "the same weights, bit for bit", "paper/ibatch-implied", "decisions",
                 "by which claims are", "the paper says 5 million", "than a whole iteration of one node"):  # fmt: skip
        assert part in text, part


def test_the_same_results_give_the_same_bytes(tmp_path):
    some = [*made.fig3(), *made.scaling(networks=("vgg19",), sizes=(6, 72)), made.random_profiles()]
    results = put(tmp_path / "results", some)
    first = ibatch_page.build(results, tmp_path / "one")
    again = ibatch_page.build(results, tmp_path / "two")
    for before, after in zip([*first[0], *first[1]], [*again[0], *again[1]], strict=True):
        assert before.relative_to(tmp_path / "one") == after.relative_to(tmp_path / "two")
        assert before.read_bytes() == after.read_bytes(), before


def test_a_page_without_results_says_how_to_get_each_and_still_shows_what_does_not_add_up(tmp_path):
    pages, others, state = ibatch_page.build(tmp_path / "none", tmp_path / "out")
    text = pages[0].read_text()
    for name in SHOWN:
        for file in files(name):
            assert f"`repro run ibatch/{file}`" in text, name
    assert "make reproduce-ibatch" in text and "4.87" in text and not state["shown"]
    assert not [path for path in others if path.suffix == ".png"]
    assert all(v.text == "not attempted (no results)" for v in state["verdicts"])


def _bare(cells):
    return [cell | {"per_rank": [], "pipeline": None, "trace": []} for cell in cells]


@pytest.mark.parametrize("some", [
    made.fig3()[:1], made.fig3(made.TESTBEDS[1])[2:], _bare(made.fig3()), made.scaling(sizes=(6,))[:1],
    made.scaling(networks=("vgg19-22k",), sizes=(72,))[1:2], made.scaling(FIG6, ("inception",), (30,)),
    _bare(made.scaling(networks=("vgg19",), sizes=(72,))), made.beyond()[4:5], _bare(made.beyond())[:1],
    made.measured(sizes=(4,))[2:], _bare(made.measured(sizes=(2,))), made.sync()[1:2], [made.random_profiles()],
    [made.timing(made.sync()[0])],
])  # fmt: skip
def test_a_page_from_one_result_alone(some, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "save", undrawn)
    pages, _, state = ibatch_page.build(put(tmp_path / "results", some), tmp_path / "out")
    assert len(state["shown"]) == 1 and "not run yet" in pages[0].read_text()
    assert all(not math.isnan(v.ours.median) for v in state["verdicts"] if v.ours)


def test_figures_are_drawn_from_little_and_from_much(tmp_path):
    """Each drawing function with one row's worth of data, and the page's files are pictures."""
    some = [*made.fig3()[2:], *made.scaling(networks=("vgg19",), sizes=(72,))[1:2], *made.measured(sizes=(4,))[2:]]
    _, others, _ = ibatch_page.build(put(tmp_path / "results", some), tmp_path / "out")
    pictures = [path for path in others if path.suffix == ".png"]
    assert len(pictures) > 4 and all(Path(path).read_bytes()[:4] == b"\x89PNG" for path in pictures)
