"""The table of experiments that were not tried, with the data, GPU-hours and dollars that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.answers.claims.claims import Untried
from repro.answers.claims.stats import DASH

if TYPE_CHECKING:
    import pandas as pd

# list price of Amazon EC2 on demand, us-east-1: p5.48xlarge with eight H100 SXM
DOLLARS, DATE = 55.04 / 8, "2026-11-09"
PRICE = f"Amazon EC2 p5.48xlarge on demand, us-east-1, read on {DATE}: ${DOLLARS:.2f} an H100-hour"


def table(entries: Sequence[Untried]) -> pd.DataFrame:
    """The columns what, data, runs, H100-hours, dollars."""
    import pandas as pd

    return pd.DataFrame([_row(one) for one in entries], columns=["what", "data", "runs", "H100-hours", "dollars"])


def _row(one: Untried) -> tuple[str, str, str, str, str]:
    if one.gpu_hours is None:
        return one.what, one.data, str(one.runs), one.instead, DASH
    hours = one.runs * one.gpu_hours
    return one.what, one.data, str(one.runs), _rounded(hours), _rounded(hours * DOLLARS)


def _rounded(value: float) -> str:
    """Two digits, the precision of an estimate."""
    return "< 1" if value < 1 else f"{float(f'{value:.2g}'):,.0f}"
