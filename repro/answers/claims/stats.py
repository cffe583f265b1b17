"""Medians, and the format of numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

DASH, TIMES = "\N{EN DASH}", "\N{MULTIPLICATION SIGN}"  # for empty cells and ranges; for speed-ups
INFINITY = "\N{INFINITY}"  # also for a target that is not reached
ALPHA, RHO = "\N{GREEK SMALL LETTER ALPHA}", "\N{GREEK SMALL LETTER RHO}"


def median_or_none(values: Iterable[float]) -> float | None:
    """The median; None without values."""
    numbers = list(values)
    return statistics.median(numbers) if numbers else None


def median_known(values: Iterable[float]) -> float:
    """The median of the numbers that are not NaN; NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def format_number(value: float, digits: int = 3) -> str:
    """Format with `digits` significant digits, without exponent for everyday sizes; a dash for NaN and None."""
    if value is None or math.isnan(value):
        return DASH
    if math.isinf(value):
        return INFINITY if value > 0 else f"-{INFINITY}"
    if value == 0:
        return "0"
    if isinstance(value, int):
        return f"{value:,}"
    value = float(f"{value:.{digits - 1}e}")  # 0.9999 is 1.00, not 1.000
    size = math.floor(math.log10(abs(value)))
    if size >= digits:
        return f"{value:,.0f}"
    if size < -4:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - size)}f}"


def format_percent(share: float, digits: int = 0) -> str:
    """`13 %`"""
    return f"{100 * share:.{digits}f} %"


def middle_of_range(low: float, high: float) -> float:
    """The geometric middle of a range of positive numbers, else its upper end; the one end of an open range.

    An end that is open is NaN.
    """
    if math.isnan(low) or math.isnan(high):
        return low if math.isnan(high) else high
    return math.sqrt(low * high) if low > 0 else high
