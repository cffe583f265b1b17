"""Text on pages: what is not marked as `Markdown` is escaped, by the environment of the templates (`render`).

Records come from results folders, which anybody may have written, so their text must never become markup. Records,
tables and verdicts hold it as it is. A string reaches a page in a template, in a cell of a table (`cells`) or in a
method of `Markdown`, and each of them escapes it, unless it is `Markdown`: what the files of this project or of a paper
say, and what was escaped. Figures read no formulas (`repro.answers.figures.looks`).
"""

from __future__ import annotations

import html
import re
from typing import Any

from markupsafe import Markup

# Line ends, after which a new block of Markdown could begin, other control characters and lone surrogates.
BREAKS = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")

_references = str.maketrans({sign: f"&#{ord(sign)};" for sign in "[]`\\*|#$"} | {s: html.escape(s) for s in "<>&"})


class Markdown(Markup):
    """Text that is Markdown. `format`, `join` and `+` escape what they insert, unless it is Markdown; an f-string and
    methods of `str` do not."""

    __slots__ = ()

    @classmethod
    def escape(cls, text: Any, /) -> Markdown:
        """A text as Markdown that shows it: every sign with a meaning in Markdown or HTML becomes a reference."""
        return text if isinstance(text, cls) else cls(BREAKS.sub(" ", str(text)).translate(_references))
