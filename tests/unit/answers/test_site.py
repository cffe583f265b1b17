"""The site: pages of text, tables, figures and links; nothing in the text of a page becomes anything else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest

from repro.answers.claims import verdict
from repro.answers.site import markdown, sources
from repro.answers.site.build import build_html_site
from repro.answers.site.extension import COLUMNS, split_verdicts
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from tests.reports.data.undrawn import PIXEL
from tests.support.contrast import contrast
from tests.support.site_pages import NOWHERE, in_browser, put, read

PAPER = """# A paper

![Two bars.](figures/paper/bars.png)

*Two bars, **simulated**. [PDF](figures/paper/bars.pdf) [CSV](figures/paper/bars.csv)*

All are on [a page of their own](paper-claims.md#all-claims).
"""
CLAIMS = """# Claims

## All claims

| claim | paper | simulated | note |
| --- | --- | --- | --- |
| holds its breath | 2x | 2.10 (2.00 to 2.20): **same direction (64 of 64)** | |
| is the same | 1x | not reproduced | reproduced for others |
| is large | - | not testable here: no data | |

| run | state |
| --- | --- |
| a | not run |
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    overview = "# Overview\n\n[First](other.md), [second](paper.md)\n"
    pages = {"index.md": overview, "paper.md": PAPER, "paper-claims.md": CLAIMS, "other.md": "# Another\n"}
    return build_html_site(put(tmp_path_factory.mktemp("site"), pages), NOWHERE)


def test_pages_are_in_the_order_of_the_overview_and_claims_below_their_paper(site):
    assert site.warnings == []
    tree = read(site.page("paper")).select_one(".sidebar-tree > ul")
    assert [link["href"] for link in tree.select("li.toctree-l1 > a")] == ["other.html", "#"]
    assert [link["href"] for link in tree.select("li.toctree-l2 > a")] == ["paper-claims.html"]
    (link,) = read(site.page("paper")).select('article a[href^="paper-claims"]')
    assert link["href"] == "paper-claims.html#all-claims" and read(site.page("paper-claims")).find(id="all-claims")


def test_a_figure_has_its_text_its_caption_and_its_data(site):
    figure = read(site.page("paper")).find("figure")
    assert figure.img["alt"] == "Two bars." and "Two bars, simulated. PDF CSV" in figure.get_text()
    files = [site.index.parent / unquote(name) for name in (figure.img["src"], *(a["href"] for a in figure("a")[:3]))]
    assert [path.suffix for path in files] == [".png", ".png", ".pdf", ".csv"]  # the picture is a link to itself
    assert files[0].read_bytes() == files[1].read_bytes() == PIXEL and files[3].read_text() == "a,b\n1,2\n"


def test_a_narrow_picture_takes_the_place_of_the_wide_one_on_a_narrow_screen(tmp_path):
    pages = put(tmp_path, {"index.md": PAPER})
    (pages / "figures/paper/bars-narrow.png").write_bytes(PIXEL)
    figure = read(build_html_site(pages, NOWHERE).page("index")).find("figure")
    assert [Path(unquote(picture["src"])).name for picture in figure("img")] == ["bars.png", "bars-narrow.png"]
    assert [picture["class"] for picture in figure("img")] == [["wide"], ["narrow"]]
    assert len({picture["alt"] for picture in figure("img")}) == 1
    styles = (PROJECT / "repro/answers/site/static/site.css").read_text()
    assert "img.wide { display: none; }" in styles and "img.narrow { display: none; }" in styles


def test_verdicts_are_chips_and_tables_of_claims_can_be_filtered(site):
    claims, runs = read(site.page("paper-claims")).select("article table")
    assert "claims" in claims["class"] and "claims" not in runs["class"]
    assert all("lines" in table["class"] for table in (claims, runs))  # whose rows are one line
    chips = [[(chip.text, chip["class"][1]) for chip in row.select(".verdict")] for row in claims.select("tbody tr")]
    assert chips == [
        [("same direction", "partly")], [("not reproduced", "bad"), ("reproduced", "good")],
        [("not testable here", "none")],
    ]  # fmt: skip
    assert "2.10 (2.00 to 2.20): same direction (64 of 64)" in claims.get_text()
    assert claims.find_parent(class_="table-wrapper")  # which scrolls
    assert read(site.page("paper-claims")).find("script", src=re.compile("_static/claims.js"))


def test_a_table_of_many_columns_is_cards_on_a_narrow_screen(tmp_path):
    rows = [
        "\n".join(f"| {' | '.join([cell] * columns)} |" for cell in ("a", "---", "1"))
        for columns in (COLUMNS, COLUMNS + 1)
    ]
    site = build_html_site(put(tmp_path, {"index.md": "# I\n\n" + "\n\n".join(rows) + "\n"}), NOWHERE)
    few, many = read(site.page("index")).select("article table")
    assert "cards" not in few["class"] and "cards" in many["class"]


def test_provenance_links_each_claim_to_its_row(tmp_path):
    claims = "# Claims\n\n| claim | paper |\n| --- | --- |\n| C5. is large | 2x |\n"
    provenance = "# Provenance\n\n| experiment | claims |\n| --- | --- |\n| fig4 | C2, C5 to C7 |\n"
    pages = {"index.md": "# I\n", "paper.md": "# P\n", "paper-claims.md": claims, "paper-provenance.md": provenance}
    site = build_html_site(put(tmp_path, pages), NOWHERE)
    cell = read(site.page("paper-provenance")).select("article td")[1]
    assert cell.text.strip() == "C2, C5 to C7"
    assert [a["href"] for a in cell("a")] == [f"paper-claims.html#c{number}" for number in (2, 5, 7)]
    assert read(site.page("paper-claims")).find(id="c5").text.strip() == "C5. is large"


def test_text_of_the_theme_is_legible_in_both_modes(site):
    styles = (site.index.parent / "_static" / "styles" / "furo.css").read_text()
    for mode in (0, 1):  # light, dark

        def colour(name, mode=mode):
            return re.findall(rf"--color-{name}:(#[0-9a-f]{{3,6}})\b", styles)[mode]

        inks = [f"foreground-{name}" for name in ("primary", "secondary", "muted")]
        for ink in [*inks, "brand-primary", "brand-content", "brand-visited"]:
            for paper in ("background-primary", "background-secondary"):
                assert contrast(colour(ink), colour(paper)) >= 4.5, (ink, paper, mode)  # WCAG, AA


def test_every_verdict_has_a_tone_with_readable_contrast():
    answers = {value for name, value in vars(verdict).items() if name.isupper() and isinstance(value, str)}
    assert answers == set(verdict.WORDS)
    assert (
        split_verdicts("open (3 of 4)") == ["", "open", " (3 of 4)"]
        and split_verdicts("reopen") is None
        and split_verdicts("openly") is None
    )
    styles = (PROJECT / "repro/answers/site/static/site.css").read_text()
    colours = dict(re.findall(r"\.verdict\.(\w+) \{ (.*?) \}", styles))
    assert set(colours) == {word.tone for word in verdict.WORDS.values()}

    for tone in colours.values():
        assert contrast(*re.findall(r"#[0-9a-f]{6}", tone)) >= 7  # WCAG, AAA


def test_nothing_comes_from_the_network(site):
    for path in site.index.parent.rglob("*.html"):
        page = read(path)
        loaded = [node.get("src") or node.get("href") for node in page.select("script[src], link[href], img[src]")]
        assert loaded and not [each for each in loaded if re.match(r"[a-z]+:|//", each)], path
        policy = page.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
        assert policy.startswith("default-src 'none'") and "http" not in policy
    styles = "".join(path.read_text() for path in site.index.parent.glob("_static/**/*.css"))
    assert styles and not re.search(r"@import|url\(['\"]?(https?:)?//", styles)
    assert (site.index.parent / "searchindex.js").is_file()  # a script, so that files may search too


def test_only_changed_pages_are_built_again_and_old_ones_are_removed(tmp_path):
    pages = put(tmp_path, {"a.md": "# A\n", "b.md": "# B\n", "c.md": "# C\n"})
    before = build_html_site(pages, NOWHERE)
    times = {name: before.page(name).stat().st_mtime_ns for name in "abc"}
    (pages / "b.md").write_text("# B\n\nmore\n")
    build_html_site(pages, NOWHERE)
    assert [name for name in "abc" if before.page(name).stat().st_mtime_ns != times[name]] == ["b"]
    (pages / "c.md").unlink()
    build_html_site(pages, NOWHERE)
    assert not before.page("c").exists() and "c.html" not in before.page("a").read_text()


# --- the committed pages and the documentation

WIDE = f"# Wide\n\n| claim {'| a column of the table ' * 12}|\n{'| --- ' * 13}|\n{'| 123456789 ' * 13}|\n"
MEASURED = """<script>parent.postMessage([location.pathname, innerWidth, document.documentElement.scrollWidth,
Math.round(document.querySelector(".sidebar-drawer").getBoundingClientRect().right)].join(), "*")</script>"""
FRAME = '<iframe src="{page}" style="width: {width}px; height: 900px; border: 0"></iframe>'
COLLECT = "<title>;</title><script>onmessage = (event) => document.title += event.data + ';'</script>"


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """The site of the committed pages and the documentation, with one wide page."""
    pages = tmp_path_factory.mktemp("committed") / "pages"
    shutil.copytree(PROJECT / "reports" / "out", pages)
    (pages / "wide.md").write_text(f"{WIDE}\n```\n{'x' * 300}\n```\n")
    return build_html_site(pages)


def test_the_documentation_has_no_warning_and_all_its_links_live(committed):
    assert committed.warnings == [] and not committed.page("README").exists()  # links to README lead to the overview
    for path in sorted(PROJECT.glob("docs/*.md")):
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)
        links = read(committed.page(f"docs/{path.stem}")).select("article a:not(.headerlink, :has(> img))")
        assert len(links) == len(re.findall(r"(?<!!)\[[^\]\n]*\]\([^)\n]+\)", prose)), path
        for href in (unquote(a["href"]).partition("#")[0] for a in links):
            assert href.startswith("http") or not href or (committed.page("docs/x").parent / href).is_file(), href
    order = [a["href"] for a in read(committed.index).select(".sidebar-tree li a")]
    assert order.index("docs/start.html") < order.index("docs/limits.html") and "CONTRIBUTING.html" in order


def test_no_page_is_wider_than_its_window_or_covered_by_the_sidebar(committed, tmp_path):
    """Each page in a frame of each width, as no window is narrower than 500 pixels."""
    frames = []
    for name in ("wide", "index", "pipesgd", "gtopk", "gtopk-claims", "gtopk-provenance", "validation"):
        copy = committed.page(f"measured-{name}")
        copy.write_text(committed.page(name).read_text().replace("</body>", f"{MEASURED}</body>"))
        frames += [FRAME.format(page=copy.as_uri(), width=width) for width in (390, 1280)]
    (tmp_path / "frames.html").write_text(COLLECT + "".join(frames))
    measured = [each.split(",") for each in in_browser(tmp_path / "frames.html", tmp_path).strip(";").split(";")]
    assert len(measured) == len(frames)
    for page, width, page_width, sidebar_end in measured:
        assert int(page_width) <= int(width), page
        assert (int(sidebar_end) > 0) == (int(width) > 1000), page


# --- text is text

TEXTS = (
    "<script>alert(1)</script>", "a <b onclick='alert(1)'>bold</b>", "<!-- hidden -->", "<img src=x onerror=alert(1)>",
    "~~~{include} secret.txt\n~~~", "```{raw} html\n<script>alert(1)</script>\n```",
    "```{eval-rst}\n.. note:: html\n```", ":::{note}\n:::", "{raw-html}`<i>`", "{download}`secret.txt`", "(target)=",
    "% comment", "+++", "text[^1]\n\n[^1]: note", "{{ project }}", "![a](../secret.png)", "![a](https://a.org/b.png)",
    "[a](javascript:alert(1))", "[a](../secret.txt)", "[a](inv:x#y)", "[a](path:../secret.txt)",
    "[a](project:../secret.txt)", "[a](file:///etc/passwd)",
)  # fmt: skip
LINKS = {
    "https://a.org/x?y=1": True, "http://a.org": True, "#there": True, "link0.md#there": True,
    "figures/paper/bars.csv": True, "not-built.md": False, "figures/paper/not-there.csv": False,
    "javascript:alert(1)": False, "JavaScript:alert(1)": False, "data:text/html,x": False, "vbscript:x": False,
    "file:///etc/passwd": False, "java&#10;script:alert(1)": False, "/etc/passwd": False, "../../../etc/passwd": False,
}  # fmt: skip
FOLDED = "# P\n\n<details><summary>More & *more*</summary>\n\n| a |\n| --- |\n| inside |\n\n</details>\n\nafter\n"
UNFOLDED = "# P\n\n<details><summary>never closed</summary>\n\n<details open>\n\ntext\n"
SETTINGS = "---\nmyst:\n  enable_extensions: [html_image]\n---\n\n# P\n\n<img src='figures/paper/bars.png'>\n"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The site of pages whose text could become something else, beside secret files."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in ("secret.txt", "secret.png"):
        (folder / name).write_text("the secret")
    pages = {f"text{i}.md": f"# P\n\n{text}\n\n---\n" for i, text in enumerate(TEXTS)}
    pages |= {f"link{i}.md": f"# P\n\n## There\n\n[text]({link})\n" for i, link in enumerate(LINKS)}
    pages |= {"folded.md": FOLDED, "unfolded.md": UNFOLDED, "settings.md": SETTINGS}
    markdown.LOGGER.logger.disabled = True  # as MLflow's migrations leave it
    return build_html_site(put(folder / "pages", pages), NOWHERE)


def test_text_is_text(hostile):
    for i, text in enumerate(TEXTS):
        article = read(hostile.page(f"text{i}")).find("article")
        assert not article.select("script, b, i, img, iframe, aside, .admonition, .error, .problematic"), text
        assert not article.find(href=re.compile("^(?!#)")) and "the secret" not in article.get_text(), text
        shown = re.sub(r"\]\(.*\)|[`~]{3}.*|\{.*\}|\[.*: .*", "", text)
        assert set(re.findall(r"\w{4,}", shown)) <= set(re.findall(r"\w{4,}", article.get_text())), text
    assert not list(hostile.index.parent.rglob("secret*"))
    assert not read(hostile.page("settings")).select("article img")


def test_a_fold_opens_and_no_other_html_does(hostile):
    (fold,) = read(hostile.page("folded"))("details")
    assert fold.summary.text == "More & *more*" and fold.td.text.strip() == "inside" and "after" not in fold.text
    article = read(hostile.page("unfolded")).article
    assert not article.select("details") and "never closed" in article.text


def test_links_lead_to_the_web_or_beside_the_page(hostile):
    for i, (link, lives) in enumerate(LINKS.items()):
        article = read(hostile.page(f"link{i}")).find("article")
        links = [a for a in article("a") if "text" in a.get_text()]
        assert bool(links) == lives and "text" in article.get_text(), link
        for a in links:
            assert a["href"].startswith(("http", "#")) or (hostile.index.parent / a["href"].partition("#")[0]).is_file()
    outside = [warning.rpartition("WARNING: ")[2] for warning in hostile.warnings if "/link" in warning]
    assert outside == [f"{link} leads out of the site" for link in ("/etc/passwd", "../../../etc/passwd")]


def test_an_unwritable_folder_is_an_error_of_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write") as caught:
        build_html_site(tmp_path / "file")
    assert "\n" not in str(caught.value)


def test_the_contents_of_documents():
    documents = {"index": "# I\n\n[b](b.md) [w](https://a.org/b.md)", "a": "", "b": "", "b-claims": "", "c-d": "",
                 "docs/README": "| [z](z.md) | [C](../CONTRIBUTING.md#x) |", "docs/a": "", "docs/z": "",
                 "CONTRIBUTING": ""}  # fmt: skip
    assert sources.site_contents(documents, {"index", "a", "b", "b-claims", "c-d"}) == {
        "b": [("", ["b-claims"])],
        "index": [("Results", ["b", "a", "c-d"]),
                  ("Documentation", ["docs/README", "docs/z", "CONTRIBUTING", "docs/a"])],
    }  # fmt: skip
