"""By how much simulated ratios are off: those of the validation, measured beside simulated, largest size first."""

from __future__ import annotations

from collections.abc import Collection
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
    beyond it the error is extrapolated, and says so. None where no ratio of the family was validated.
    """
    largest = rows["bytes"].max()
    mine = rows[(rows["bytes"] == largest) & rows["strategy"].isin(family)]
    off = []
    for _, of in mine.groupby("run"):
        errors = dict(zip(of["setting"], of["simulated_s"] / of["observed_s.median"]))
        off += [max(errors[a] / errors[b], errors[b] / errors[a]) - 1 for a, b in combinations(errors, 2)]
    if not off:
        return None
    off.sort()
    share = off[min(len(off) - 1, int(SHARE * len(off)))]
    beyond = ", extrapolated" if nbytes > largest else ""
    return Error(share, f"{len(off)} ratios of {largest / 1e6:.0f} MB, 95th percentile {share:.1%}{beyond}")
