"""Text that comes from a results folder is text, never markup: escaped once, as it is read.

A summary may be anybody's. Every sign in its strings that means something in Markdown, in HTML or in the mathematics of
a figure becomes a character reference, which a page shows as the sign, whatever the page is then put together from.
Data files and figures get the signs back.
"""

from __future__ import annotations

import html
import re
from functools import cache
from typing import Any

# Ends of lines, where another block of Markdown could begin, other control characters, and what is no character.
BREAKS = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
NUMBERS = (float, int, bool, type(None))  # most of what a summary holds
DOLLAR = "&#36;"

_references = str.maketrans({sign: f"&#{ord(sign)};" for sign in "[]`\\*|#$"} | {s: html.escape(s) for s in "<>&"})


def taken(value: Any) -> Any:
    """What was read from a summary, with its strings escaped, the names of entries too."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(name): entry if type(entry) in NUMBERS else taken(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [entry if type(entry) in NUMBERS else taken(entry) for entry in value]
    return value


@cache  # a recorded step says the same few words some thousand times
def _text(value: str) -> str:
    return BREAKS.sub(" ", value).translate(_references)


def plain(text: Any) -> Any:
    """For files of data; what is no text stays as it is."""
    return html.unescape(text) if isinstance(text, str) else text


def drawn(text: str) -> str:
    """For figures, where two dollars would make a formula."""
    return html.unescape(text.replace(DOLLAR, r"\$"))
