"""What a user should know of, and what no command ends for: a line on stderr, once a command."""

from __future__ import annotations

import sys

LONGEST = 4000  # characters of a message

_said: set[str] = set()


def warn(text: str) -> None:
    """Print a warning, unless this command has printed the same before."""
    if text not in _said:
        _said.add(text)
        print(f"warning: {one_line(text)}", file=sys.stderr, flush=True)


def forget() -> None:
    """A new command begins, in this process too."""
    _said.clear()


def one_line(text: str) -> str:
    """A message as it is shown: what it cites of the input may be of any length and hold any character."""
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    half = LONGEST // 2  # what is wrong stands before or behind what is cited
    return shown if len(shown) <= LONGEST else f"{shown[:half]} ... {shown[-half:]}"
