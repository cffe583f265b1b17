"""Markdown as GitHub has it, and no more: HTML is text, nothing is a directive, links and pictures stay in the site.

MyST reads it; what is taken away here is what results could do harm with if their text were not escaped
(`repro.answers.tables.foreign`). MyST's own ways with links between documents stay.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
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


class Renderer(SphinxRenderer):
    """MyST's, but that code is only shown and that nothing outside the site is reached for."""

    def render_fence(self, token: SyntaxTreeNode) -> None:
        if token.info.lstrip().startswith("{"):
            return self.render_code_block(token)
        return super().render_fence(token)

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
        parser.options["document"] = document
        parser.render(inputstring)
