"""Colour for people at a terminal: none in a pipe or file, nor where $NO_COLOR (no-color.org) or $TERM=dumb says so."""

from __future__ import annotations

import os
from typing import TextIO

CODES = {"bold": 1, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


def coloured(stream: TextIO) -> bool:
    """Whether what reads the stream shows colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: TextIO) -> str:
    """The text in one of `CODES`, where the stream shows it."""
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if coloured(stream) else text
