"""How a verdict looks in a table: its word (docs/design.md, Verdicts) as a chip, in the tone of what it says."""

from __future__ import annotations

import re

# word -> tone, a class of `static/site.css`
TONES = {
    "confirmed": "good",
    "confirmed in direction": "partly",
    "refuted": "bad",
    "open": "open",
    "by construction": "none",
    "consistent with implied input": "none",
    "out of scope": "none",
    "not testable here": "none",
    "not run": "none",
}
_word = "|".join(map(re.escape, sorted(TONES, key=len, reverse=True)))
# What a cell, or what is bold in it, begins with: `confirmed in direction (64 of 64)`.
BEGINNING = re.compile(rf"\s*(?:{_word})\b(?:, (?:{_word})\b)*")
WORD = re.compile(rf"\b({_word})\b")


def parts(text: str) -> list[str] | None:
    """A text that begins with verdicts, taken apart: between, word, between, word, ..., the rest; None for others."""
    beginning = BEGINNING.match(text)
    if beginning is None:
        return None
    *before, last = WORD.split(beginning[0])
    return [*before, last + text[beginning.end() :]]
