"""Text that comes from a results folder is text, never markup: the one place that escapes it.

A summary may be anybody's. As it is read, every sign in its strings that means something in Markdown, in HTML or in the
mathematics of a figure is replaced by a stand-in, a private code point: whatever a page is then put together from, it
cannot turn into a tag, a link or a picture. Where a page is written its stand-ins become character references; data
files and figures get the signs back.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

SIGNS = "<>&[]`\\*|#$"
STAND_INS = {sign: chr(0xE000 + ord(sign)) for sign in SIGNS}
# Ends of lines, where another block of Markdown could begin, other control characters, and what is no character.
BREAKS = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
NUMBERS = (float, int, bool, type(None))  # most of what a summary holds

_taken = str.maketrans(STAND_INS)
_markup = str.maketrans({stand_in: f"&#{ord(sign)};" for sign, stand_in in STAND_INS.items()}
                        | {STAND_INS["<"]: "&lt;", STAND_INS[">"]: "&gt;", STAND_INS["&"]: "&amp;"})  # fmt: skip
_plain = str.maketrans({stand_in: sign for sign, stand_in in STAND_INS.items()})
_drawn = _plain | {ord(STAND_INS["$"]): r"\$"}


def taken(value: Any) -> Any:
    """What was read from a summary, with stand-ins in all its strings, the names of entries too."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(name): entry if type(entry) in NUMBERS else taken(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [entry if type(entry) in NUMBERS else taken(entry) for entry in value]
    return value


@cache  # a recorded step says the same few words some thousand times
def _text(value: str) -> str:
    return BREAKS.sub(" ", value).translate(_taken)


def markup(text: str) -> str:
    """For Markdown."""
    return text.translate(_markup)


def plain(text: Any) -> Any:
    """For files of data; what is no text stays as it is."""
    return text.translate(_plain) if isinstance(text, str) else text


def drawn(text: str) -> str:
    """For figures, where two dollars would make a formula."""
    return text.translate(_drawn)
