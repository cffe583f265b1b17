"""Escape text from results folders, which anybody may have written: pages show it as text, never as markup.

Tables of runs hold the text as it is; it is escaped where it becomes Markdown: in the cells of tables
(`repro.answers.pages.cells`), and where a sentence of a page or a verdict quotes it. Figures read no formulas
(`repro.answers.figures.looks`). Every character with a meaning in Markdown or HTML becomes a character reference.
"""

from __future__ import annotations

import html
import re
from typing import Any

# Line ends, after which a new block of Markdown could begin, other control characters and lone surrogates.
BREAKS = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")

_references = str.maketrans({sign: f"&#{ord(sign)};" for sign in "[]`\\*|#$"} | {s: html.escape(s) for s in "<>&"})


def escaped(text: Any) -> str:
    """The text of a value from a record, as Markdown."""
    return BREAKS.sub(" ", str(text)).translate(_references)
