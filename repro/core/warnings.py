"""Warnings to the user: a line on stderr, each printed once by a command."""

from __future__ import annotations

import sys

from repro.core.terminal import styled

LONGEST = 4000  # characters of a message

_printed: set[str] = set()


def warn(text: str) -> None:
    """Print a warning, unless this command has printed the same before."""
    if text not in _printed:
        _printed.add(text)
        print(f"{styled('warning:', 'yellow', sys.stderr)} {one_line(text)}", file=sys.stderr, flush=True)


def forget() -> None:
    """Start a new command in this process."""
    _printed.clear()


def one_line(text: str) -> str:
    """A message as one printable line of limited length; it may cite arbitrary input."""
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    half = LONGEST // 2  # keep both ends, because the explanation is before or after the citation
    return shown if len(shown) <= LONGEST else f"{shown[:half]} ... {shown[-half:]}"
