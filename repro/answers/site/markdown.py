"""A MyST parser for plain GitHub Markdown: HTML is text, there are no directives, links and pictures stay in the site.

This keeps results from doing harm if their text is not escaped (`repro.answers.pages.markdown`).
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from markdown_it.rules_block import StateBlock
from markdown_it.tree import SyntaxTreeNode
from myst_parser.mdit_to_docutils.sphinx_ import SphinxRenderer
from myst_parser.parsers.mdit import create_md_parser
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
WEB = re.compile(r"https?://", re.IGNORECASE)
# rules of the parser that make something other than text, tables, links and code
NOT_HERE = (
    "html_block", "html_inline", "front_matter", "myst_role", "myst_target", "myst_line_comment", "myst_block_break",
    "footnote_def", "footnote_ref",
)  # fmt: skip
FOLD, FOLD_END = re.compile(r"<details><summary>([^<>]*)</summary>"), "</details>"


class Fold(nodes.General, nodes.Element):
    """Content that is hidden until the reader opens its `summary`."""


def fold_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The only HTML that is not text: the lines from one that opens a fold, as on GitHub, to one that closes it."""
    opening = FOLD.fullmatch(_line(state, start))
    last = next((n for n in range(start + 1, end) if _line(state, n) == FOLD_END), None) if opening else None
    if opening is None or last is None or silent:
        return opening is not None and last is not None
    opened = state.push("fold_open", "details", 1)
    opened.map, opened.meta = [start, last], {"summary": opening[1]}
    state.md.block.tokenize(state, start + 1, last)
    state.push("fold_close", "details", -1)
    state.line = last + 1
    return True


def _line(state: StateBlock, n: int) -> str:
    return state.src[state.bMarks[n] + state.tShift[n] : state.eMarks[n]].rstrip()


class Renderer(SphinxRenderer):
    """MyST's renderer, except that code is never executed and nothing outside the site is loaded."""

    def render_fence(self, token: SyntaxTreeNode) -> None:
        if token.info.lstrip().startswith("{"):
            return self.render_code_block(token)
        return super().render_fence(token)

    def render_fold(self, token: SyntaxTreeNode) -> None:
        with self.current_node_context(Fold("", summary=token.meta["summary"]), append=True):
            self.render_children(token)

    def render_link(self, token: SyntaxTreeNode) -> None:
        """Links to the web, to a heading, or to a file of the site; any other link is only its text."""
        href = self.md.normalizeLinkText(str(token.attrGet("href") or ""))
        if WEB.match(href):
            return self.render_link_url(token)
        if href.startswith("#"):
            return self.render_link_anchor(token, href)
        return self.render_link_unknown(token) if self._is_here(href, token) else self.render_children(token)

    def render_image(self, token: SyntaxTreeNode) -> None:
        """PNG files of the site; any other picture is only its text."""
        source = self.md.normalizeLinkText(str(token.attrGet("src") or ""))
        if source.endswith(".png") and self._is_here(source, token):
            return super().render_image(token)
        self.current_node.append(nodes.Text(token.content))
        return None

    def _is_here(self, target: str, token: SyntaxTreeNode) -> bool:
        """Whether the target is a file of the site; warns if it lies outside (a page may not be built)."""
        root = Path(self.sphinx_env.srcdir).resolve()
        file = ((root / self.sphinx_env.docname).parent / target.partition("#")[0]).resolve()
        if root not in file.parents:
            location = (self.sphinx_env.docname, token.map[0] + 1 if token.map else None)
            LOGGER.warning("%s leads out of the site", target, location=location)
            return False
        return file.is_file()


class Parser(MystParser):
    """MyST's parser with the renderer above, without settings in the text."""

    def parse(self, inputstring: str, document: nodes.document) -> None:
        parser = create_md_parser(document.settings.env.myst_config, Renderer)
        parser.disable(list(NOT_HERE))
        parser.block.ruler.before("paragraph", "fold", fold_rule, {"alt": ["paragraph"]})
        parser.options["document"] = document
        parser.render(inputstring)
