"""Warnings on stderr, a line each; a command prints the same warning once."""

from __future__ import annotations

import sys

from repro.core.terminal import style_text

LONGEST = 4000  # characters of a message

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
    half = LONGEST // 2  # keep both ends: the explanation stands before or after the quotation
    return shown if len(shown) <= LONGEST else f"{shown[:half]} ... {shown[-half:]}"
