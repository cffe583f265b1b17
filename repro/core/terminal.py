"""Text on a terminal: colours, warnings and progress.

Colours are off in pipes and files, and with $NO_COLOR (no-color.org) or TERM=dumb. Warnings are lines on stderr; a
command prints the same warning once."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

CODES = {"bold": 1, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


def shows_colours(stream: TextIO) -> bool:
    """Whether the stream is a terminal that shows colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def style_text(text: str, style: str, stream: TextIO) -> str:
    """The text in a style of `CODES`, if the stream shows colours."""
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if shows_colours(stream) else text


SILENT_S = 5.0  # between two lines of a command that works on one thing


@contextmanager
def report_waiting(what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Call `say` with `WHAT, 5 s so far` every SILENT_S while the block runs, from a thread."""
    ended = threading.Event()

    def report() -> None:
        waited_s = 0.0
        while not ended.wait(SILENT_S):
            say(f"{what}, {(waited_s := waited_s + SILENT_S):g} s so far")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def print_progress(line: str) -> None:
    """Print a line of progress on stderr."""
    print(line, file=sys.stderr, flush=True)


LONGEST_LINE = 4000  # characters of a message

_printed: set[str] = set()


def warn(text: str) -> None:
    """Print a warning, unless this command has printed it before."""
    if text not in _printed:
        _printed.add(text)
        print(f"{style_text('warning:', 'yellow', sys.stderr)} {one_line(text)}", file=sys.stderr, flush=True)


def forget_warnings() -> None:
    """Forget the printed warnings: a new command starts in this process."""
    _printed.clear()


def one_line(text: str) -> str:
    """A message, which may quote arbitrary input, as one printable line of limited length."""
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    half = LONGEST_LINE // 2  # keep both ends: the explanation stands before or after the quotation
    return shown if len(shown) <= LONGEST_LINE else f"{shown[:half]} ... {shown[-half:]}"
