"""The built pages: every section with results and without, links, labels, the same bytes again."""

from __future__ import annotations

import ast
import copy
import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup

from repro.common.errors import InputError
from repro.reports import compute, groups, page, style
from repro.reports.build import OTHERS, PAGES, build
from repro.reports.experiments import PROBES, SHOWN, TRAINING
from repro.site.build import build as build_site
from tests.reports.data.probes import everything
from tests.reports.data.summaries import all_runs, make, put

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c6360000000020001e221bc33000000"
    "0049454e44ae426082"
)


def undrawn(figure, stem: Path) -> list[Path]:
    """In place of `style.save`: the same files, without drawing, which takes a second a figure."""
    import matplotlib.pyplot as plt

    plt.close(figure)
    return [style.write_bytes(stem.with_name(stem.name + suffix), PIXEL + b" " * 99) for suffix in (".png", ".pdf")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A page with results for every section, its figures not drawn."""
    root = tmp_path_factory.mktemp("whole")
    results = put(root / "results", [*everything(2), make("D-Sync", epochs=30)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "save", undrawn)
        return results, root / "out", build(results=results, out=root / "out")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A page with every kind of figure, really drawn: one seed, simulated where there is a choice."""
    root = tmp_path_factory.mktemp("drawn")
    kinds = {"convergence": "measured", "fig4-alexnet": "simulated"}
    names = {"fig4-mnist", "fig1", "fig2", "k-spectrum", "lossy-parameters", *kinds, *PROBES}
    chosen = [s for s in everything(1) if s["experiment"] in names]
    chosen = [s for s in chosen if s["kind"] == kinds.get(s["experiment"], "simulated")]
    results = put(root / "results", chosen)
    return results, root / "out", build("pipesgd", results, root / "out")


def test_every_section_figure_and_table_is_written(whole):
    _, out, paths = whole
    names = [p.relative_to(out).as_posix() for p in paths]
    every = (*PAGES, *OTHERS, "index")
    pages = [f"{page}.md" for page in every]
    assert names[: len(pages)] == pages
    assert all(p.stat().st_size > 30 for p in paths) and len(set(paths)) == len(paths)
    both = [f"{name}-{kind}" for kind in groups.KINDS for name in (
        "fig4", "fig4-mnist", "fig4-alexnet", "fig4-resnet18", "fig4-cifar100-convex", "fig1", "fig2", "fig3",
        "fig4-mnist-accuracy", "fig4-mnist-timeline", "efficiency", "fit", "k-spectrum")]  # fmt: skip
    one = ["timing-model", "segments-simulated", "lossy-simulated", "resnet20-cifar10-simulated",
           "convergence-rates-measured", "fig4-alexnet-accuracy-measured"]  # fmt: skip
    for figure in (*both, *one):
        for suffix in (".png", ".pdf", ".csv"):
            assert f"figures/pipesgd/{figure}{suffix}" in names
    assert "figures/pipesgd/fig4-alexnet-accuracy-simulated.png" not in names  # timing only
    for table in ("settings-fig4-mnist-measured", "timing-simulated", "timing-errors", "turning-simulated",
                  "overheads-measured", "ring-simulated", "convergence-rates-measured", "claims"):  # fmt: skip
        assert f"tables/pipesgd/{table}.tex" in names
    assert sorted(p for p in out.rglob("*") if p.is_file()) == sorted(paths)
    traces = [n for n in names if "/trace-" in n]
    assert all(any(f"trace-fig{i}-{kind}-" in n for n in traces) for i in (1, 2, 3) for kind in groups.KINDS)
    events = json.loads((out / "figures/pipesgd/trace-fig3-simulated-pipelined-t.json").read_text())["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "X"} == {"communicate", "decompress+sum+compress"}


def test_the_page_s_order_and_contents(whole):
    _, out, _ = whole
    text = (out / "pipesgd.md").read_text()
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles[0] == "Results at a glance" and titles[1:6] == ["Figure 4", *(f"Figure 4, row {n}" for n in (
        "MNIST-MLP", "AlexNet", "ResNet18", "CIFAR100-Convex"))]  # fmt: skip
    assert titles[6:11] == ["Figure 1", "Figure 2", "Figure 3", "Timing model",
                            "Sequential or pipelined gradient communication"]  # fmt: skip
    assert titles[-6:] == ["Claims", "Deviations from the paper", "Where the paper contradicts itself or leaves a gap",
                           "What the numbers were made with", "The paper's numbers", "Rebuild"]  # fmt: skip


def test_the_page_labels_kinds_and_links_only_to_what_is_there(whole):
    _, out, _ = whole
    markdown = (out / "pipesgd.md").read_text()
    for part in ("measured", "simulated", "quoted", "Other results found", "not attempted", "provisional",
                 "0123456789", "cpu-2core-synthetic", "modelled: paper/pipesgd", "81 % less", "bootstrap",
                 "estimated: synthetic", "accuracy is not computed here", "imagenet-standin (STAND-IN)",
                 "paper/pipesgd-100g", "exactly as printed", "within the bound"):  # fmt: skip
        assert part in markdown, part
    for link in re.findall(r"\]\(([^)]+)\)", markdown):
        assert link.startswith("#") or (out / link).is_file(), link
    assert "not run yet" not in markdown.replace("No measured results, not run yet: `repro run pipesgd/gradient", "")
    claimed = [row for row in markdown.splitlines() if re.match(r"\| (Final|Pipe-SGD with|D-Sync is)", row)]
    assert claimed and all(re.search(r"measured|simulated", row) for row in claimed)
    for caption in re.findall(r"^\*[^*\n].*\*$", markdown, re.MULTILINE)[1:]:
        assert "**measured**" in caption or "**simulated**" in caption, caption
    for tex in (out / "tables/pipesgd").glob("*.tex"):
        assert tex.read_text().isascii(), tex


def test_the_site_of_the_pages_has_every_figure_and_no_dead_link(whole, tmp_path):
    _, out, _ = whole
    shutil.copytree(out, tmp_path / "pages")
    site = build_site(tmp_path / "pages", tmp_path / "nowhere")
    assert site.warnings == []
    for name in (*PAGES, *OTHERS, "index"):
        article = BeautifulSoup(site.page(name).read_text(), "html.parser").find("article")
        ids = {node["id"] for node in article.find_all(id=True)}
        links = [unquote(link["href"]) for link in article.find_all("a", href=True)]
        assert all(link[1:] in ids for link in links if link.startswith("#")), name
        beside = [link.partition("#")[0] for link in links if not link.startswith(("#", "http"))]
        assert all((site.index.parent / link).is_file() for link in beside), name
        figures = {path.name for path in (out / "figures" / name).glob("*.png")}
        assert len(article.select("figure img[alt]")) == len(figures) == len(article.select("figcaption")), name


def test_rebuilding_gives_the_same_bytes_elsewhere_and_sweeps_old_figures(drawn, tmp_path, monkeypatch):
    """Figures are all saved alike: one row's are drawn again."""
    results, out, paths = drawn

    def some(figure, stem: Path) -> list[Path]:
        if "mnist" in stem.name:
            return style.save(figure, stem)
        before = out / stem.relative_to(tmp_path)
        found = [path.with_suffix(suffix) for path, suffix in ((stem, ".png"), (stem, ".pdf"))]
        return [style.write_bytes(path, before.with_name(path.name).read_bytes()) for path in found]

    monkeypatch.setattr(page, "save", some)
    stale = tmp_path / "figures" / "pipesgd" / "gone.png"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"old")
    for again in build("pipesgd", results, tmp_path):
        before = out / again.relative_to(tmp_path)
        assert again.read_bytes() == before.read_bytes(), again
    mine = [path for path in paths if "pipesgd" in path.parts or path.stem == "pipesgd"]
    assert not stale.exists() and len(list(tmp_path.rglob("*.*"))) == len(mine)
    text = (out / "pipesgd.md").read_text()
    assert "No measured results, not run yet: `repro run pipesgd/fig4-alexnet`." in text
    assert "No results, not run yet: `repro run pipesgd/resnet20-cifar10`." in text


def test_a_page_without_results_says_how_to_get_each(tmp_path):
    pages = build(results=tmp_path / "none", out=tmp_path / "out")
    text = pages[0].read_text()
    assert "No results yet" in text and "make reproduce-pipesgd" in text and "not attempted (no results)" in text
    for name in (*PROBES, *(experiment.name for experiment in TRAINING)):
        assert f"not run yet: `repro run pipesgd/{name}`" in text, name
        assert name in SHOWN
    assert not list((tmp_path / "out").rglob("*.png"))
    overview = (tmp_path / "out" / "index.md").read_text()
    assert overview.count("Not attempted yet.") == 0 and "no results yet" in overview
    before = {path: path.read_bytes() for path in pages}
    assert {path: path.read_bytes() for path in build(results=tmp_path / "none", out=tmp_path / "out")} == before


def test_a_page_from_one_run_of_stand_in_data_without_trace_or_targets(tmp_path):
    one = make("D-Sync", dataset={"name": "mnist-standin-digits", "standin": True}, trace=[], best=0.6)
    one["targets"] = {}
    pages = build(results=put(tmp_path / "results", [one]), out=tmp_path / "out")
    text = pages[0].read_text()
    assert "Stand-in data" in text and "mnist-standin-digits (STAND-IN)" in text and "1 of 7 variants" in text
    assert not (tmp_path / "out/figures/pipesgd/fig4-mnist-timeline-measured.png").exists()


def test_bad_input_is_one_clear_line(tmp_path):
    with pytest.raises(InputError, match=r"unknown paper 'pipesdg'; valid: pipesgd, "):
        build("pipesdg", tmp_path, tmp_path)
    results = put(tmp_path / "results", [make()])
    path = next(results.rglob("summary.json"))
    good = json.loads(path.read_text())
    bads = ({"schema": 2}, {"phases": {}}, {"kind": "guessed"}, {"program": "timing"})
    for bad in ("{", "[]", '{"schema": 1}', *(json.dumps(good | bad) for bad in bads)):
        path.write_text(bad)
        with pytest.raises(InputError, match=re.escape(str(path))) as caught:
            build(results=results, out=tmp_path / "out")
        assert "\n" not in str(caught.value)
    path.write_text(json.dumps(good))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        build(results=results, out=tmp_path / "file" / "out")


def test_reports_import_neither_training_nor_tracking():
    """Which rooms they may import is a contract: `tests/unit/project/test_rooms.py`."""
    for path in Path(compute.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else ([node.module] if isinstance(node, ast.ImportFrom) and node.module else [])
            )
            for name in names:
                assert name.split(".")[0] not in {"torch", "mlflow"}, path


def test_make_is_a_fresh_dictionary():
    assert make() == copy.deepcopy(make()) and len(all_runs()) == 28
