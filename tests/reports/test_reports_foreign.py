"""Summaries from elsewhere: their text is text on every page, never a tag, a picture, a link or a formula."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup

from repro.answers.pages import overview, render, writing
from repro.answers.pages.build import page
from repro.answers.pages.files import Files
from repro.answers.site.build import build as build_site
from repro.answers.tables import foreign
from repro.core.errors import InputError
from tests.reports.data import eagersgd as reports_eagersgd_data
from tests.reports.data import gtopk as reports_gtopk_data
from tests.reports.data import ibatch as reports_ibatch_data
from tests.reports.data import pipedream as reports_pipedream_data
from tests.reports.data import probes as reports_probe_data
from tests.reports.data.summaries import make, put
from tests.reports.data.undrawn import without_drawing
from tests.unit.probes.test_validation import summary as validated

HOSTILE = (
    "<script>alert(1)</script>![k](../../../../etc/passwd)[x](javascript:alert(2))`code` **bold** | $\\bad$ &lt;"
    "\n\n# heading\n[y]: javascript:alert(3)\n"
)
DATA = {
    "pipesgd": reports_probe_data,
    "pipedream": reports_pipedream_data,
    "gtopk": reports_gtopk_data,
    "eagersgd": reports_eagersgd_data,
    "ibatch": reports_ibatch_data,
}


def spoilt(summary: dict) -> dict:
    """The summary with hostile text in the fields that say where it comes from and on what it ran."""
    for part, name in (("hardware", "class"), ("hardware", "cpu"), ("hardware", "network"), ("dataset", "name"),
                       ("model", "name"), ("provenance", "commit")):  # fmt: skip
        if isinstance(summary.get(part), dict):
            summary[part][name] = f"{summary[part].get(name)} {HOSTILE}"
    summary["provenance"]["versions"] = {f"torch {HOSTILE}": HOSTILE}
    if summary.get("testbed_model"):
        summary["testbed_model"]["sources"] = {"all": HOSTILE}
    summary["launcher"] += HOSTILE
    return summary


def summaries(name: str) -> list[dict]:
    if name == "validation":
        one = validated(0.01)
        made = reports_probe_data.probe(name, "shaped", "p = 2", one["result"], workers=2)
        return [made | {"paper": name, "factors": one["factors"]}]
    if name == "baselines":
        return [make("D-Sync", paper=name) | {"paper": name, "experiment": "side-by-side"}]
    if name == "gpu":
        result = {
            "profile": dict.fromkeys(("model", "batch", "hardware", "layers"), 1),
            "seconds": 0.1,
            "parameter_bytes": 4,
        }
        measured = reports_probe_data.probe("layer_times", "profiles", "VGG16", result, line=f"1 ms {HOSTILE}")
        own = [make("D-Sync", paper=name) | {"experiment": "smoke"}, measured]
        return [each | {"paper": name, "hardware": each["hardware"] | {"gpu": f"H100 {HOSTILE}"}} for each in own]
    return DATA[name].everything(1)


OF_RUNS = [name for name in (*overview.papers(), *overview.across()) if name != "recommend"]  # of committed tables


@pytest.mark.parametrize("name", OF_RUNS)
def test_hostile_text_is_text_on_every_page(tmp_path, monkeypatch, name):
    without_drawing(monkeypatch)
    results = put(tmp_path / "results", map(spoilt, summaries(name)))
    pages, written = page(name, results, tmp_path / "out").written()
    markdown = "".join(path.read_text() for path in pages)
    figures = [path for path in written if path.suffix == ".png"]
    site = build_site(tmp_path / "out", tmp_path / "nowhere")
    assert site.warnings == []
    read = (BeautifulSoup(site.page(path.stem).read_text(), "html.parser").find("article") for path in pages)
    article = BeautifulSoup("".join(map(str, read)), "html.parser")
    shown = [image["src"] for image in article("img")]
    assert len(shown) == len(figures) and all(re.fullmatch(r"_images/[\w.-]+\.png", source) for source in shown)
    assert not article.select("script, iframe, object, form, b, input")
    assert not [each for each in article.select("strong, code") if re.match("alert|bold|code", each.get_text())]
    links = [unquote(link["href"]) for link in article("a")]
    assert all(link.startswith("#") or (site.index.parent / link.partition("#")[0]).is_file() for link in links)
    assert "<script>alert(1)</script>![k](../../../../etc/passwd)" in article.get_text()
    assert "<script" not in markdown and "](../" not in markdown and "](javascript" not in markdown
    assert not re.search(r"^(# heading|\[y\]:)", markdown, re.MULTILINE)
    for path in (*pages, *written):
        assert path.is_relative_to(tmp_path / "out")
        if path.suffix not in (".png", ".pdf", ".md"):
            assert "&#" not in path.read_text(), path


def test_figures_show_the_signs_and_no_formula(tmp_path):
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots()
    text = foreign.taken("[0.1] <b> $\\bad$ {")
    axis.set_xticks([0, 1], [text, "b"])
    axis.set_title(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a sign that the font lacks
        writing.save(figure, tmp_path / "figure")
    assert axis.get_title() == axis.get_xticklabels()[0].get_text() == "[0.1] <b> \\$\\bad\\$ {"


def test_a_page_shows_only_its_own_figures(tmp_path: Path):
    own, other = tmp_path / "figures" / "p" / "a.png", tmp_path / "figures" / "p" / "b.png"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"own")
    other.write_bytes(b"other")
    render.write_page("# P\n\n| a |\n| - |\n| ![a](figures/p/a.png) |", "p", Files("p", tmp_path, [own]))
    for text in ("![b](figures/p/b.png)", "| a |\n| - |\n| ![b][c] |\n\n[c]: figures/p/b.png"):
        with pytest.raises(InputError, match=r"figures/p/b\.png: not a figure of this page"):
            render.write_page(f"# P\n\n{text}", "p", Files("p", tmp_path, [own]))
