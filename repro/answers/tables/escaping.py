"""Escape text from results folders, which anybody may have written, so that pages show it as text and never as markup.

Records are escaped once, as they are read: pages join text from records and Markdown of their own in many places, where
a template could not tell them apart. Every character with a meaning in Markdown, HTML or a figure's mathematics becomes
a character reference. Data files and figures show the original characters.
"""

from __future__ import annotations

import html
import re
from functools import cache
from typing import Any

# Line ends, after which a new block of Markdown could begin, other control characters and lone surrogates.
BREAKS = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
NUMBERS = (float, int, bool, type(None))  # most values of a record
DOLLAR = "&#36;"

_references = str.maketrans({sign: f"&#{ord(sign)};" for sign in "[]`\\*|#$"} | {s: html.escape(s) for s in "<>&"})


def escaped(value: Any) -> Any:
    """A value from a record with its strings escaped, and the names of its entries."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(name): entry if type(entry) in NUMBERS else escaped(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [entry if type(entry) in NUMBERS else escaped(entry) for entry in value]
    return value


@cache  # a trace repeats the same few words thousands of times
def _text(value: str) -> str:
    return BREAKS.sub(" ", value).translate(_references)


def unescaped(text: Any) -> Any:
    """The original text, for data files; other values as they are."""
    return html.unescape(text) if isinstance(text, str) else text


def for_figure(text: str) -> str:
    """The original text, for figures: a `$` is escaped, as two of them would enclose a formula."""
    return html.unescape(text.replace(DOLLAR, r"\$"))
