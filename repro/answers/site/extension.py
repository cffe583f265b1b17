"""What Sphinx is told of this site: the parser, where each document stands, tables of claims, figures, no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.nodes import clean_astext

from repro.answers.site import markdown, verdicts

# Styles and scripts are files of the site; a page loads nothing else, and sends nothing anywhere.
POLICY = (
    "default-src 'none'; img-src 'self' file: data:; style-src 'self' file: 'unsafe-inline'; "
    "script-src 'self' file: 'unsafe-inline'; base-uri 'none'; form-action 'self' file:"
)


class Contents(SphinxTransform):
    """The documents that stand below this one, as `sources.contents` has it."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for caption, names in self.config.contents.get(self.env.docname, ()):
            tree = addnodes.toctree(
                parent=self.env.docname, entries=[(None, name) for name in names], includefiles=list(names),
                caption=caption or None, rawcaption=caption, rawentries=[], maxdepth=-1, glob=False, hidden=True,
                includehidden=False, numbered=0, titlesonly=True,
            )  # fmt: skip
            page = next(self.document.findall(nodes.section), self.document)  # within it: below its title
            page.append(tree)


class Figures(SphinxTransform):
    """A picture on lines of its own, with the emphasised paragraph behind it as its caption."""

    default_priority = 410

    def apply(self, **_: Any) -> None:
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if len(paragraph) != 1 or not isinstance(paragraph[0], nodes.image):
                continue
            paragraph[0]["width"] = "100%"  # with which Sphinx makes it a link to its full size, for small screens
            figure = nodes.figure("", paragraph[0])
            after = paragraph.next_node(siblings=True, descend=False)
            if isinstance(after, nodes.paragraph) and len(after) == 1 and isinstance(after[0], nodes.emphasis):
                figure += nodes.caption("", "", *after[0].children)
                after.parent.remove(after)
            paragraph.replace_self(figure)
            self.document.set_id(figure)  # Sphinx counts figures by their ids


class Claims(SphinxTransform):
    """Verdicts in tables as chips; a class for the tables that `static/claims.js` filters."""

    default_priority = 420

    def apply(self, **_: Any) -> None:
        for table in self.document.findall(nodes.table):
            first = next(iter(table.findall(nodes.entry)), None)
            if first is not None and clean_astext(first) == "claim":
                table["classes"].append("claims")
            for row in (row for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)):
                for entry in row.children[1:]:
                    texts = [text for text in entry.findall(nodes.Text) if self._begins(text)]
                    for text in texts:
                        self._chips(text)

    @staticmethod
    def _begins(text: nodes.Text) -> bool:
        """Whether a text is the first of its cell, or of what is bold in it."""
        return isinstance(text.parent, nodes.strong | nodes.paragraph) and text.parent.index(text) == 0

    @staticmethod
    def _chips(text: nodes.Text) -> None:
        found: list[nodes.Node] = []
        for i, part in enumerate(verdicts.parts(str(text)) or ()):
            if i % 2:
                found.append(nodes.inline("", part, classes=["verdict", verdicts.TONES[part]]))
            elif part.strip(" ,"):
                found.append(nodes.Text(part))
            elif part and found:
                found.append(nodes.Text(" "))
        if found:
            text.parent.replace(text, found)


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
    for transform in (Contents, Figures, Claims):
        app.add_transform(transform)
    app.connect("html-page-context", without_network)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
