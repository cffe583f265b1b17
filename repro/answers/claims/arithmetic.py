"""Checks of a paper's numbers against other numbers of the same paper, and their table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd

from repro.answers.claims.stats import DASH

AGREES = 0.01  # of the printed number, within which two numbers agree


@dataclass(frozen=True)
class Check:
    """A number that the paper prints, and the same number computed from its other numbers."""

    what: str
    printed: str
    follows: str
    how: str
    off: float | None = None  # computed over printed, where both are numbers


def check_numbers(
    what: str, printed: float, follows: float, unit: str, how: str,
    written: tuple[Callable[[float], str], Callable[[float], str]] = ("{:g}".format, "{:.4g}".format),
) -> Check:  # fmt: skip
    """A check of two numbers in the same unit; written: how to format each."""
    return Check(what, f"{written[0](printed)}{unit}", f"{written[1](follows)}{unit}", how, follows / printed)


def plain_number(value: float) -> str:
    """Format a number with four significant digits, no trailing zeros and all digits before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def checks_table(checks: Iterable[Check]) -> pd.DataFrame:
    """A row a check, as text; `off`: the computed number over the printed one, less 1."""
    return pd.DataFrame(
        [
            {"what": c.what, "the paper prints": c.printed, "follows from its other numbers": c.follows, "how": c.how,
             "off": DASH if c.off is None else "agrees" if abs(c.off - 1) <= AGREES else f"{100 * (c.off - 1):+.0f} %"}
            for c in checks
        ]
    )  # fmt: skip
