"""Summaries from elsewhere: their text is text on every page, never a tag, a picture, a link or a formula."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup, SoupStrainer

from repro.answers.claims.drawn import Drawn, Sweeps
from repro.answers.figures import looks
from repro.answers.pages import overview, render, writing
from repro.answers.pages.build import page
from repro.answers.pages.cells import format_markdown, frame_of_cells
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.site.build import build_html_site
from repro.core.errors import InputError
from repro.records import reference, sweep
from repro.records.record import Record
from repro.records.sweep import Draw
from tests.reports.data.probes import probe
from tests.reports.data.summaries import make
from tests.reports.data.undrawn import without_drawing
from tests.support.records import found_of, record_of

HOSTILE = (
    "<script>alert(1)</script>![k](../../../../etc/passwd)[x](javascript:alert(2))`code` **bold** | $\\bad$ &lt;"
    "\n\n# heading\n[y]: javascript:alert(3)\n"
)
SHOWN = "<script>alert(1)</script>![k](../../../../etc/passwd)"


def spoilt(record: dict) -> dict:
    """The record with hostile text in the fields that say where it comes from and on what it ran."""
    identity, result = record["identity"], record["result"]
    for part, name in ((record["hardware"], "class"), (record["hardware"], "cpu"), (record["hardware"], "network"),
                       (result.get("dataset"), "name"), (identity.get("model"), "name"), (result.get("model"), "name"),
                       (record["provenance"], "commit")):  # fmt: skip
        if part:
            part[name] = f"{part.get(name)} {HOSTILE}"
    record["provenance"]["versions"] = {f"torch {HOSTILE}": HOSTILE}
    if identity["testbed"]["kind"] != "measured":
        identity["testbed"]["sources"] = {"all": HOSTILE}
    identity["testbed"]["launcher"] += HOSTILE
    return record


def records(name: str) -> list[dict]:
    """A part of the committed runs; of `gpu`, which has none, made-up ones."""
    if name == "gpu":
        result = {
            "profile": dict.fromkeys(("model", "batch", "hardware", "layers"), 1),
            "seconds": 0.1,
            "parameter_bytes": 4,
            "agree": False,  # so that the page's text quotes the run's line
        }
        measured = probe("layer_times", "profiles", "VGG16", result, line=f"1 ms {HOSTILE}")
        own = [make("D-Sync", paper=name) | {"experiment": "smoke"}, measured]
        machine = [each | {"paper": name, "hardware": each["hardware"] | {"gpu": f"H100 {HOSTILE}"}} for each in own]
        return [record_of(each).plain() for each in machine]
    some = {(run.identity.experiment, run.kind, run.identity.strategy.name): run for run in reference.read(name)}
    return [run.plain() for run in some.values()]


def put(root: Path, every: list[dict]) -> Path:
    for record in every:
        folder = root / record["identity"]["paper"] / record["identity"]["experiment"] / record["run"]
        folder.mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps(record))
    return root


OF_RUNS = [name for name in (*overview.papers(), *overview.across()) if name != "recommend"]  # of committed tables


def test_hostile_text_is_text_on_every_page(tmp_path, monkeypatch):
    """On one site of them all, whose start takes as long as a page."""
    without_drawing(monkeypatch)
    written = {}
    for name in OF_RUNS:
        results = put(tmp_path / name, [spoilt(record) for record in records(name)])
        written[name] = page(name, results, tmp_path / "out").written()
    texts = check_pages([path for paths in written.values() for path in paths], tmp_path)
    for name, paths in written.items():
        assert any(SHOWN in texts[path.stem] for path in paths if path.suffix == ".md"), name


def check_pages(written: list[Path], tmp_path: Path) -> dict[str, str]:
    """Hostile text is text on these pages; returns what each shows."""
    pages = [path for path in written if path.suffix == ".md"]
    markdown = "".join(path.read_text() for path in pages)
    figures = [path for path in written if path.suffix == ".png"]
    site = build_html_site(tmp_path / "out", tmp_path / "nowhere")
    assert site.warnings == []
    html = "".join(site.page(path.stem).read_text() for path in pages)
    article = BeautifulSoup(html, "html.parser", parse_only=SoupStrainer("article"))
    texts = {path.stem: each.get_text() for path, each in zip(pages, article("article"), strict=True)}
    shown = [image["src"] for image in article("img")]
    assert len(shown) == len(figures) and all(re.fullmatch(r"_images/[\w.-]+\.png", source) for source in shown)
    assert not article.select("script, iframe, object, form, b, input")
    assert not [each for each in article.select("strong, code") if re.match("alert|bold|code", each.get_text())]
    links = [unquote(link["href"]) for link in article("a")]
    assert all(link.startswith("#") or (site.index.parent / link.partition("#")[0]).is_file() for link in links)
    assert any(SHOWN in text for text in texts.values())
    assert "<script" not in markdown and "](../" not in markdown and "](javascript" not in markdown
    assert not re.search(r"^(# heading|\[y\]:)", markdown, re.MULTILINE)
    for path in written:
        assert path.is_relative_to(tmp_path / "out")
        if path.suffix not in (".png", ".pdf", ".md"):
            assert "&#" not in path.read_text(), path
    return texts


def texts_of(part: Any) -> Iterator[tuple[Any, Any]]:
    """(mapping or list, key) of every text in it."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        if isinstance(value, dict | list):
            yield from texts_of(value)
        elif isinstance(value, str):
            yield part, key


def spoilt_everywhere(record: dict) -> dict:
    """The record with hostile text in every field that takes any text."""
    for part, key in [*texts_of(record)]:
        before = part[key]
        part[key] = before + HOSTILE
        try:
            Record.of(record)
        except ValueError:
            part[key] = before
    return record


def test_hostile_text_in_every_field_of_records_and_draws_is_text_on_the_page(tmp_path, monkeypatch):
    without_drawing(monkeypatch)
    cases = [(kind, variant) for kind in ("measured", "simulated") for variant in ("D-Sync", "Pipe-SGD + T")]
    made = [make(variant, kind, finished="2027-01-01", trace=[]) for kind, variant in cases]
    results = put(tmp_path / "results", [record_of(run).plain() for run in made])
    others = [record_of(make(variant, kind, trace=[], run=f"{kind}-{n}")) for n, (kind, variant) in enumerate(cases)]
    spoilt = [spoilt_everywhere(record.plain()) for record in others]
    put(results, spoilt)
    assert spoilt[0]["identity"]["variant"].endswith(HOSTILE) and spoilt[0]["hardware"]["class"].endswith(HOSTILE)
    for run in made[2:]:  # an input decides the ratio of the two
        seconds = [0.01 if run["variant"] == "D-Sync" else 0.001 * (1 + n) for n in range(64)]
        times = [{"step": run["step"] | {"mean_s": step_s}} for step_s in seconds]
        draws = [Draw(n, {f"input {HOSTILE}": {HOSTILE: n}}, result) for n, result in enumerate(times)]
        lines = [sweep.first_line("key", record_of(run)), *map(sweep.line_of, draws)]
        sweep.append(results / "pipesgd" / run["experiment"] / run["run"], lines)
    built = page("pipesgd", results, tmp_path / "out")
    shown = " ".join(" ".join(check_pages(built.written(), tmp_path).values()).split())
    assert re.search(r"the effect holds below [\d. to]+ \(input <script>alert\(1\)</script>", shown)
    assert all(" ".join(record["identity"]["variant"].split()) in shown for record in spoilt)


def test_figures_show_the_signs_and_no_formula(tmp_path):
    import matplotlib.pyplot as plt

    looks.set_theme()
    figure, axis = plt.subplots()
    text = "[0.1] <b> $\\bad$ {"
    axis.set_xticks([0, 1], [text, "b"])
    axis.set_title(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a sign that the font lacks
        writing.save(figure, tmp_path / "figure")
    assert axis.get_title() == axis.get_xticklabels()[0].get_text() == text


def test_a_page_shows_only_its_own_figures(tmp_path: Path):
    own, other = tmp_path / "figures" / "p" / "a.png", tmp_path / "figures" / "p" / "b.png"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"own")
    other.write_bytes(b"other")
    render.write_page("# P\n\n| a |\n| - |\n| ![a](figures/p/a.png) |", "p", Files("p", tmp_path, [own]))
    for text in ("![b](figures/p/b.png)", "| a |\n| - |\n| ![b][c] |\n\n[c]: figures/p/b.png"):
        with pytest.raises(InputError, match=r"figures/p/b\.png: not a figure of this page"):
            render.write_page(f"# P\n\n{text}", "p", Files("p", tmp_path, [own]))


def test_the_inputs_of_somebody_s_draws_are_text_too():
    draws = [Draw(n, {HOSTILE: {HOSTILE: n}, "kind": {"kind": HOSTILE if n < 32 else "b"}}, {}) for n in range(64)]
    sweeps = Sweeps([Drawn(found_of(make()), draws)])
    for shown in (sweeps.decided_by({n: float(n) for n in range(64)}), sweeps.turns_at({n: n < 32 for n in range(64)})):
        assert "alert(1)" in shown and not re.search(r"[<`*\[\n]", Markdown.escape(shown))


def test_only_what_is_marked_is_markdown():
    """Without a mark it is text: in a template's value, whatever a filter makes of it, and in a cell."""
    environment = render._environment((render.TEMPLATES,))
    marked, plain = Markdown("**a**"), "**a** <b> `c` | [d](e)\n# f"
    assert environment.from_string("{{ x }}").render(x=marked) == "**a**"
    for template in ("{{ x }}", "{{ x | replace('a', 'a') }}", "{{ [x, y] | join }}", "{{ x ~ y }}", "{{ x | safe }}"):
        text = environment.from_string(template).render(x=plain, y=marked)
        assert not re.search(r"[*<`|\[\n]", text), template
    assert Markdown("**{}**").format(plain).count("*") == 4 and "|" not in Markdown.escape(plain)
    cells = frame_of_cells([{"x": marked, "y": plain}])
    assert format_markdown(cells).splitlines()[-1].count("|") == 3
