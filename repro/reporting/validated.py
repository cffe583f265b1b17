"""By how much simulated numbers are off: those of the validation, observed beside simulated."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from repro.reporting.evaluate import Error

if TYPE_CHECKING:
    import pandas as pd

SHARE = 0.95  # of the cases are off by less


def ratio_error(rows: pd.DataFrame, family: Collection[str], nbytes: float) -> Error | None:
    """The error of a ratio of two step times of this family, a gradient of so many bytes.

    rows: those of the validation's runs (`repro.records.tidy`): run, setting, strategy, bytes, observed_s.median,
    simulated_s. Errors of single times that a ratio shares fall out of it. Of the largest size that was validated;
    beyond it the error is extrapolated, and says so. A family of which no ratio was validated has the error of all.
    None where nothing was validated.
    """
    return _error(rows, family, nbytes, "ratios", _of_ratios)


def time_error(rows: pd.DataFrame, family: Collection[str], nbytes: float) -> Error | None:
    """The same of a step time itself."""
    return _error(rows, family, nbytes, "times", lambda errors: [max(e, 1 / e) - 1 for e in errors])


def _of_ratios(errors: Sequence[float]) -> list[float]:
    return [max(a / b, b / a) - 1 for a, b in combinations(errors, 2)]


def _error(rows: pd.DataFrame, family: Collection[str], nbytes: float, what: str, off_by) -> Error | None:
    mine, whose = rows[rows["strategy"].isin(family)], ""
    off = _off(mine, off_by)
    if not off:
        mine, whose = rows, ", of all families"
        off = _off(rows, off_by)
    if not off:
        return None
    off.sort()
    share, largest = off[min(len(off) - 1, int(SHARE * len(off)))], mine["bytes"].max()
    beyond = ", extrapolated" if nbytes > largest else ""
    return Error(share, f"{len(off)} {what} of {largest / 1e6:.0f} MB{whose}, 95th percentile {share:.1%}{beyond}")


def _off(rows: pd.DataFrame, off_by) -> list[float]:
    largest = rows[rows["bytes"] == rows["bytes"].max()]
    return [
        share
        for _, of in largest.groupby("run")
        for share in off_by((of["simulated_s"] / of["observed_s.median"]).tolist())
    ]
