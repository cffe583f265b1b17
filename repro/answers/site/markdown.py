"""Markdown as GitHub has it, and no more: HTML is text, nothing is a directive, links and pictures stay in the site.

MyST reads it; what is taken away here is what results could do harm with if their text were not escaped
(`repro.answers.tables.foreign`). MyST's own ways with links between documents stay.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.tree import SyntaxTreeNode
from myst_parser.mdit_to_docutils.sphinx_ import SphinxRenderer
from myst_parser.parsers.mdit import create_md_parser
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
WEB = re.compile(r"https?://", re.IGNORECASE)
# rules of the parser that make something else than text, tables, links and code of what is written
NOT_HERE = (
    "html_block", "html_inline", "front_matter", "myst_role", "myst_target", "myst_line_comment", "myst_block_break",
    "footnote_def", "footnote_ref",
)  # fmt: skip


FOLD, FOLD_END = re.compile(r"<details><summary>([^<>]*)</summary>"), "</details>"


class Fold(nodes.General, nodes.Element):
    """What is shown once it is asked for, below a `summary` that always is."""


def fold(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The one piece of HTML that is no text: a line that opens a fold, as GitHub has it, to the line that closes it."""
    found = FOLD.fullmatch(_line(state, start))
    last = next((n for n in range(start + 1, end) if _line(state, n) == FOLD_END), None) if found else None
    if found is None or last is None or silent:
        return found is not None and last is not None
    opened = state.push("fold_open", "details", 1)
    opened.map, opened.meta = [start, last], {"summary": found[1]}
    state.md.block.tokenize(state, start + 1, last)
    state.push("fold_close", "details", -1)
    state.line = last + 1
    return True


def _line(state: StateBlock, n: int) -> str:
    return state.src[state.bMarks[n] + state.tShift[n] : state.eMarks[n]].rstrip()


class Renderer(SphinxRenderer):
    """MyST's, but that code is only shown and that nothing outside the site is reached for."""

    def render_fence(self, token: SyntaxTreeNode) -> None:
        if token.info.lstrip().startswith("{"):
            return self.render_code_block(token)
        return super().render_fence(token)

    def render_fold(self, token: SyntaxTreeNode) -> None:
        found = Fold("", summary=token.meta["summary"])
        with self.current_node_context(found, append=True):
            self.render_children(token)

    def render_link(self, token: SyntaxTreeNode) -> None:
        """To the web, to a heading, or to a file of the site; what would lead elsewhere is its text alone."""
        href = self.md.normalizeLinkText(str(token.attrGet("href") or ""))
        if WEB.match(href):
            return self.render_link_url(token)
        if href.startswith("#"):
            return self.render_link_anchor(token, href)
        return self.render_link_unknown(token) if self._is_here(href, token) else self.render_children(token)

    def render_image(self, token: SyntaxTreeNode) -> None:
        """A PNG of the site; any other is its text alone."""
        source = self.md.normalizeLinkText(str(token.attrGet("src") or ""))
        if source.endswith(".png") and self._is_here(source, token):
            return super().render_image(token)
        self.current_node.append(nodes.Text(token.content))
        return None

    def _is_here(self, target: str, token: SyntaxTreeNode) -> bool:
        """Whether a document names a file of the site. A page that was not built is no mistake; one elsewhere is."""
        root = Path(self.sphinx_env.srcdir).resolve()
        found = ((root / self.sphinx_env.docname).parent / target.partition("#")[0]).resolve()
        if root not in found.parents:
            location = (self.sphinx_env.docname, token.map[0] + 1 if token.map else None)
            LOGGER.warning("%s leads out of the site", target, location=location)
            return False
        return found.is_file()


class Parser(MystParser):
    """MyST's, with the renderer above and without settings in the text itself."""

    def parse(self, inputstring: str, document: nodes.document) -> None:
        parser = create_md_parser(document.settings.env.myst_config, Renderer)
        parser.disable(list(NOT_HERE))
        _with_folds(parser)
        parser.options["document"] = document
        parser.render(inputstring)


def _with_folds(parser: MarkdownIt) -> None:
    parser.block.ruler.before("paragraph", "fold", fold, {"alt": ["paragraph"]})
