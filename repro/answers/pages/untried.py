"""The table of experiments that were not tried, with the data, GPU-hours and dollars that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.answers.claims.claims import Untried
from repro.answers.claims.stats import DASH
from repro.answers.pages.cells import frame_of_cells
from repro.answers.pages.markdown import Markdown

if TYPE_CHECKING:
    import pandas as pd

# list price of Amazon EC2 on demand, us-east-1: p5.48xlarge with eight H100 SXM
DOLLARS, DATE = 55.04 / 8, "2026-11-09"
PRICE = Markdown(f"Amazon EC2 p5.48xlarge on demand, us-east-1, read on {DATE}: ${DOLLARS:.2f} an H100-hour")

NONE = "none"  # in the place of data


def table(entries: Sequence[Untried]) -> pd.DataFrame:
    """The columns what, data, runs, H100-hours (or what else it takes), dollars."""
    return frame_of_cells(map(_row, entries), ["what", "data", "runs", "H100-hours, or what else", "dollars"])


def sum_untried(entries: Sequence[Untried]) -> Markdown:
    """What all that could be estimated takes together, the data of all, and how many have no estimate: `540 H100-hours,
    about $3,700, without 1 experiment that is not estimated; data: ImageNet (ILSVRC12)`; "" where none has one."""
    if not (estimated := [entry for entry in entries if entry.gpu_hours is not None]):
        return Markdown("")
    hours = sum(entry.runs * (entry.gpu_hours or 0) for entry in estimated)
    data = Markdown("; ").join(map(Markdown, dict.fromkeys(entry.data for entry in entries if entry.data != NONE)))
    total = Markdown("{} H100-hours, about ${}").format(_rounded(hours), _rounded(hours * DOLLARS))
    if others := len(entries) - len(estimated):
        total += Markdown(f", without {others} experiment{'s that are' if others > 1 else ' that is'} not estimated")
    return total + Markdown("; data: ") + data


def _row(entry: Untried) -> tuple[str, str, str, str, str]:
    about = Markdown(entry.what), Markdown(entry.data), str(entry.runs)
    if entry.gpu_hours is None:
        return *about, Markdown(entry.instead), DASH
    hours = entry.runs * entry.gpu_hours
    return *about, _rounded(hours), _rounded(hours * DOLLARS)


def _rounded(value: float) -> str:
    """Two digits, the precision of an estimate."""
    return "< 1" if value < 1 else f"{float(f'{value:.2g}'):,.0f}"
