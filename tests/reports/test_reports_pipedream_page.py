"""The PipeDream page as a whole: every figure and table, any subset of results, the same bytes twice."""

from __future__ import annotations

import math
import re

import pytest

from repro.reports import page
from repro.reports import pipedream as pipedream_page
from repro.reports.pipedream import (
    frames_table1,
    frames_timelines,
)
from repro.reports.pipedream.experiments import (
    BY_NAME,
    FIG8,
    SHOWN,
    TABLE,
    TABLE_1,
    TIMELINES,
    files,
)
from repro.reports.pipelines import BSP, PIPEDREAM, Runs
from tests.reports.data import pipedream as made
from tests.reports.data.summaries import put
from tests.reports.test_reports_page import undrawn
from tests.reports.test_reports_pipedream import PAPER, gathered

# --- the page


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Results for every section; one figure of each kind is really drawn."""
    root = tmp_path_factory.mktemp("pipedream")
    results = put(root / "results", made.everything(2))
    drawn = {"table1", "fig13", "fig1", "fig5", "what-if", "timelines-simulated", "figs10-12-simulated",
             "memory-measured"}  # fmt: skip

    def some(figure, stem):
        return some.real(figure, stem) if stem.name in drawn else undrawn(figure, stem)

    some.real = page.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "save", some)
        return results, root / "out", pipedream_page.build(results, root / "out")


def test_every_figure_and_table_is_written_and_linked(whole):
    _, out, (pages, written, state) = whole
    names = {path.relative_to(out).as_posix() for path in (*pages, *written)}
    assert {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} == names
    for figure in ("table1", "fig13", "fig1", "fig5", "timelines-simulated", "fig8-simulated", "fig8-measured",
                   "figs10-12-simulated", "semantics-simulated", "semantics-alexnet-simulated", "memory-measured",
                   "what-if", "measured-vgg-shaped-1g-cpu-2core-synthetic", "measured-vgg-here-cpu-2core-synthetic",
                   "curves-measured-alexnet-shaped-1g-cpu-2core-synthetic"):  # fmt: skip
        assert {f"figures/pipedream/{figure}.{suffix}" for suffix in ("png", "pdf", "csv")} <= names, figure
    for table in ("table1", "table1-details", "fig13", "fig1", "arithmetic", "products", "reductions", "headlines",
                  "claims", "claims-not-attempted", "reference", "provenance", "testbed", "verdicts", "runs",
                  "accuracy-simulated", "versions-semantics-simulated", "configurations", "what-if",
                  "memory-measured", "schedules-measured-vgg-shaped-1g",
                  "schedule-fig8-simulated-pipedream"):  # fmt: skip
        assert f"tables/pipedream/{table}.tex" in names, table
        assert (out / f"tables/pipedream/{table}.tex").read_text().isascii(), table
    assert {f"figures/pipedream/trace-timelines-simulated-{name}.json" for name in TIMELINES.settings} <= names
    text = (out / "pipedream.md").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link.startswith("#") or (out / link).is_file(), link
    assert "not run yet" not in text and set(state["experiments"]) == set(SHOWN)
    html = (out / "pipedream.html").read_text()
    assert not re.search(r"https?://|<script|<link", html)
    linked = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert linked and linked <= set(re.findall(r'id="([^"]+)"', html))


def test_the_page_s_order_captions_and_what_is_attempted(whole):
    _, out, (_, _, state) = whole
    text = (out / "pipedream.md").read_text()
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles[:16] == [
        "Results at a glance", "What does not add up", "Figure 1", "Figures 2, 3, 4 and 6", "Figure 5", "Figure 8",
        "Table 1", "Figures 10 to 12", "Figure 13", "Weight versions", "Measured here", "Other schedules",
        "Memory of a stage", "Configurations by cost model", "What if the network were faster", "Claims",
    ]  # fmt: skip
    captions = re.findall(r"^\*[^*\n].*\*$", text, re.MULTILINE)[1:]
    assert captions and all("**measured**" in c or "**simulated**" in c for c in captions)
    untried = {v.claim.id for v in state["verdicts"]} - {
        v.claim.id for v in state["verdicts"] if v.label != "not attempted"
    }
    assert untried == {"vgg16-advertised", "inception-advertised", "s2vt-advertised"}
    for part in ("F1 F2 F3 F4 B1 F5 B2", "same direction 14-2, replicated pipeline", "27,161,264 parameters",
                 "6.76\N{MULTIPLICATION SIGN} (section 1)", "`paper` 4 of 7", "epochs **simulated**",
                 "by which claims are judged", "estimated: synthetic", "Model: Inception-v3 has"):  # fmt: skip
        assert part in text, part


def test_table_1_has_a_line_of_the_paper_and_ours_for_each_row(whole):
    results, _, _ = whole
    cells = [s for s in made.table1() if s["experiment"] != "table1-s2vt-4a"]
    runs = Runs.of(cells)
    table = frames_table1.table1(runs, PAPER)
    lines = table[(table["model"] == "VGG16") & (table["machines"] == "16")].set_index("source")
    assert lines.loc["paper", "configuration"] == "9-5-1-1" == lines.loc[frames_table1.PRINTED, "configuration"]
    assert lines.loc[frames_table1.FOUND, "PipeDream over 1 machine"].startswith("9.00")
    assert list(table[table["model"] == "S2VT"]["source"]) == ["paper"]
    assert frames_table1.missing(runs) == ["table1-s2vt-4a"] and len(frames_table1.missing(None)) == len(TABLE)
    assert len(frames_table1.table1(None, PAPER)) == len(TABLE) and results.is_dir()


def test_boxes_count_machines_and_minibatches_from_one():
    group = gathered([made.fig8()]).training[FIG8.name]["simulated"]
    found = frames_timelines.boxes(group, PIPEDREAM)
    assert found["machine"].min() == 1 and found["minibatch"].min() == 1 and found["minibatch"].max() == 10
    assert len(found[found["name"] == "forward"]) == 40  # two blocks each are one pass
    assert frames_timelines.window(found) == pytest.approx(found["end_ms"].max())
    assert "forward 1" in set(frames_timelines.chrome(group, PIPEDREAM)["name"])
    long = made.fig8() | {"trace": made.one_f_one_b(minibatches=60)}
    many = frames_timelines.boxes(gathered([long]).training[FIG8.name]["simulated"], PIPEDREAM)
    assert frames_timelines.window(many) < 0.5 * many["end_ms"].max()


def test_the_same_results_give_the_same_bytes(tmp_path):
    some = [*made.table1(), *made.timelines(), *made.accuracy(1), made.layer_sizes(), *made.memory()]
    results = put(tmp_path / "results", some)
    first = pipedream_page.build(results, tmp_path / "one")
    again = pipedream_page.build(results, tmp_path / "two")
    for before, after in zip([*first[0], *first[1]], [*again[0], *again[1]], strict=True):
        assert before.relative_to(tmp_path / "one") == after.relative_to(tmp_path / "two")
        assert before.read_bytes() == after.read_bytes(), before


def test_a_page_without_results_says_how_to_get_each_and_still_shows_what_does_not_add_up(tmp_path):
    pages, others, state = pipedream_page.build(tmp_path / "none", tmp_path / "out")
    text = pages[0].read_text()
    for name in SHOWN:
        for file in files(name):
            assert f"`repro run pipedream/{file}`" in text, name
    assert "make reproduce-pipedream" in text and "0.247 to 0.335" in text and not state["shown"]
    assert not [path for path in others if path.suffix == ".png"]
    assert all(v.text == "not attempted (no results)" for v in state["verdicts"])


@pytest.mark.parametrize("some", [
    made.row("table1-vgg16-8a", [PIPEDREAM]), made.row("table1-vgg16-4a", [BSP]), made.row("throughput-alexnet-8b"),
    made.fig1(("vgg16",), ("k80",)), made.timelines()[:1], [made.fig8() | {"trace": []}], made.accuracy(1)[:1],
    made.versions(seeds=1)[:1], made.measured(seeds=1)[5:6], made.memory()[:1], [made.layer_sizes()],
    [made.configurations()], [made.what_if()], [cell | {"per_rank": []} for cell in made.memory()],
    [made.timing(made.measured(seeds=1)[0])],
])  # fmt: skip
def test_a_page_from_one_result_alone(some, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "save", undrawn)
    pages, _, state = pipedream_page.build(put(tmp_path / "results", some), tmp_path / "out")
    assert len(state["shown"]) == 1 and "not run yet" in pages[0].read_text()
    assert all(not math.isnan(v.ours.median) for v in state["verdicts"] if v.ours)
    if some[0]["experiment"] in BY_NAME:
        assert state["shown"] == [(TABLE_1, "simulated")]
