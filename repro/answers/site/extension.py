"""The Sphinx extension of the site: parser, order of the documents, figures, tables of claims, no network access."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.nodes import clean_astext

from repro.answers.claims.verdict import WORDS
from repro.answers.pages.files import NARROW
from repro.answers.site import markdown

# a page loads only styles and scripts of the site, and sends nothing
POLICY = (
    "default-src 'none'; img-src 'self' file: data:; style-src 'self' file: 'unsafe-inline'; "
    "script-src 'self' file: 'unsafe-inline'; base-uri 'none'; form-action 'self' file:"
)
_word = "|".join(map(re.escape, sorted(WORDS, key=len, reverse=True)))
COLUMNS = 4  # columns that a narrow screen shows
# the beginning of a cell or of a bold part: `same direction (64 of 64)`
BEGINNING = re.compile(rf"\s*(?:{_word})\b(?:, (?:{_word})\b)*")
WORD = re.compile(rf"\b({_word})\b")
CLAIM, ROW = re.compile(r"\b(C\d+)\b"), re.compile(r"(C\d+)\. ")


class Contents(SphinxTransform):
    """Add the documents below this one to its table of contents (`sources.site_contents`)."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for caption, names in self.config.contents.get(self.env.docname, ()):
            tree = addnodes.toctree(
                parent=self.env.docname, entries=[(None, name) for name in names], includefiles=list(names),
                caption=caption or None, rawcaption=caption, rawentries=[], maxdepth=-1, glob=False, hidden=True,
                includehidden=False, numbered=0, titlesonly=True,
            )  # fmt: skip
            page = next(self.document.findall(nodes.section), self.document)  # inside the section, below the title
            page.append(tree)


class Figures(SphinxTransform):
    """Make figures of pictures that stand alone; an emphasised paragraph after a picture is its caption."""

    default_priority = 410

    def apply(self, **_: Any) -> None:
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if len(paragraph) != 1 or not isinstance(paragraph[0], nodes.image):
                continue
            picture = paragraph[0]
            picture["width"] = "100%"  # makes Sphinx link the picture in full size, for small screens
            figure = nodes.figure("", picture)
            narrow = picture["uri"].removesuffix(".png") + f"{NARROW}.png"
            if Path(self.env.relfn2path(narrow)[1]).is_file():
                figure += nodes.image("", **picture.attributes | {"uri": narrow, "classes": ["narrow"]})
                picture["classes"].append("wide")  # style sheets show one of both
            after = paragraph.next_node(siblings=True, descend=False)
            if isinstance(after, nodes.paragraph) and len(after) == 1 and isinstance(after[0], nodes.emphasis):
                figure += nodes.caption("", "", *after[0].children)
                after.parent.remove(after)
            paragraph.replace_self(figure)
            self.document.set_id(figure)  # Sphinx counts figures by their ids


class ClaimLinks(SphinxTransform):
    """Name the first row of each claim, `C5. ...`, by its number; link the claims in the tables of a paper's page and
    of its provenance to their rows on the page of its claims, `PAPER-claims`."""

    default_priority = 415

    def apply(self, **_: Any) -> None:
        paper = self.env.docname.removesuffix("-provenance")
        claims, named = f"{paper}-claims", set[str]()
        for entry in [entry for table in self.document.findall(nodes.table) for entry in table.findall(nodes.entry)]:
            if (row := ROW.match(clean_astext(entry))) and row[1] not in named:
                named.add(row[1])
                entry["ids"].append(row[1].lower())
            if claims in self.env.found_docs:
                for text in list(entry.findall(nodes.Text)):
                    self._link(text, f"{claims}.html")

    @staticmethod
    def _link(text: nodes.Text, page: str) -> None:
        parts = CLAIM.split(str(text))
        if len(parts) > 1 and isinstance(text.parent, nodes.paragraph):
            linked: list[nodes.Node] = [
                nodes.reference("", name, refuri=f"{page}#{name.lower()}", internal=True) if i % 2 else nodes.Text(name)
                for i, name in enumerate(parts)
                if name
            ]
            text.parent.replace(text, linked)


class Claims(SphinxTransform):
    """Show verdicts in tables as coloured chips; mark the tables of claims, those whose rows are one line, and those
    with too many columns for a narrow screen."""

    default_priority = 420

    def apply(self, **_: Any) -> None:
        listed = self.env.docname.rpartition("-")[2] in ("claims", "provenance")
        for table in self.document.findall(nodes.table):
            if listed:
                table["classes"].append("lines")
            elif len(list(table.findall(nodes.colspec))) > COLUMNS:
                table["classes"].append("cards")
            first = next(iter(table.findall(nodes.entry)), None)
            if first is not None and clean_astext(first) == "claim":
                table["classes"].append("claims")
            for row in (row for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)):
                for entry in row.children[1:]:
                    for text in filter(self._begins, list(entry.findall(nodes.Text))):
                        self._chips(text)

    @staticmethod
    def _begins(text: nodes.Text) -> bool:
        """Whether a text is the first of its cell, or of a bold part of it."""
        return isinstance(text.parent, nodes.strong | nodes.paragraph) and text.parent.index(text) == 0

    @staticmethod
    def _chips(text: nodes.Text) -> None:
        chips: list[nodes.Node] = []
        for i, part in enumerate(split_verdicts(str(text)) or ()):
            if i % 2:
                chips.append(nodes.inline("", part, classes=["verdict", WORDS[part].tone]))
            elif part.strip(" ,"):
                chips.append(nodes.Text(part))
            elif part and chips:
                chips.append(nodes.Text(" "))
        if chips:
            text.parent.replace(text, chips)


def split_verdicts(text: str) -> list[str] | None:
    """A text that begins with verdicts, split: between, verdict, between, verdict, ..., rest; None for other texts."""
    beginning = BEGINNING.match(text)
    if beginning is None:
        return None
    *before, last = WORD.split(beginning[0])
    return [*before, last + text[beginning.end() :]]


def without_network(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: nodes.document | None
) -> None:
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}" />'
    context["metatags"] = policy + context.get("metatags", "")


def open_fold(translator: Any, node: markdown.Fold) -> None:
    translator.body.append(f"<details><summary>{translator.encode(node['summary'])}</summary>\n")


def close_fold(translator: Any, node: markdown.Fold) -> None:
    translator.body.append("</details>\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("myst_parser")
    app.add_source_parser(markdown.Parser, override=True)
    app.add_config_value("contents", {}, "env", types=[dict])
    app.add_config_value("made_by", "", "env", types=[str])
    app.add_node(markdown.Fold, html=(open_fold, close_fold))
    for transform in (Contents, Figures, ClaimLinks, Claims):
        app.add_transform(transform)
    app.connect("html-page-context", without_network)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
