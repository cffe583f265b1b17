"""Terminal colours, off in pipes and files, and with $NO_COLOR (no-color.org) or TERM=dumb."""

from __future__ import annotations

import os
from typing import TextIO

CODES = {"bold": 1, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


def shows_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def style_text(text: str, style: str, stream: TextIO) -> str:
    """The text in a style of `CODES`, if the stream shows colours."""
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if shows_colours(stream) else text
