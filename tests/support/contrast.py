"""The contrast of two colours (WCAG 2): text needs 4.5, marks need 3."""

from __future__ import annotations


def contrast(one: str, other: str = "#ffffff") -> float:
    """The contrast of `#abc` or `#aabbcc` to another colour, or to the page of figures."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    letters = colour[1:] if len(colour) == 7 else "".join(2 * letter for letter in colour[1:])
    shares = [int(letters[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
