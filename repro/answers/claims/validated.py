"""By how much simulated numbers are off: those of the validation, observed beside simulated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from typing import Any

from repro.answers.claims.evaluate import Error

SHARE = 0.95  # of the cases are off by less
Steps = Sequence[Mapping[str, Any]]
Off = Callable[[Sequence[float]], list[float]]


def ratio_error(steps: Steps, family: Collection[str], nbytes: float) -> Error | None:
    """The error of a ratio of two step times of this family, a gradient of so many bytes.

    steps: those of the validation's runs: run, strategy, bytes, observed_s, simulated_s. Errors of single times that a
    ratio shares fall out of it. Of the largest size that was validated; beyond it the error is extrapolated, and says
    so. A family of which no ratio was validated has the error of all. None where nothing was validated.
    """
    return _error(steps, family, nbytes, "ratios", of_ratios)


def time_error(steps: Steps, family: Collection[str], nbytes: float) -> Error | None:
    """The same of a step time itself."""
    return _error(steps, family, nbytes, "times", lambda errors: [max(e, 1 / e) - 1 for e in errors])


def of_ratios(errors: Sequence[float]) -> list[float]:
    """By how much each ratio of two times is off, of times that are off by these factors."""
    return [max(a / b, b / a) - 1 for a, b in combinations(errors, 2)]


def _error(steps: Steps, family: Collection[str], nbytes: float, what: str, off_by: Off) -> Error | None:
    of_family = [step for step in steps if step["strategy"] in family]
    for mine, whose in ((of_family, ""), (steps, ", of all families")):
        if off := _off(mine, off_by):
            off.sort()
            share, largest = off[min(len(off) - 1, int(SHARE * len(off)))], max(step["bytes"] for step in mine)
            beyond = ", extrapolated" if nbytes > largest else ""
            return Error(
                share, f"{len(off)} {what} of {largest / 1e6:.0f} MB{whose}, 95th percentile {share:.1%}{beyond}"
            )
    return None


def _off(steps: Steps, off_by: Off) -> list[float]:
    largest = max((step["bytes"] for step in steps), default=0)
    errors: dict[str, list[float]] = {}
    for step in steps:
        if step["bytes"] == largest:
            errors.setdefault(step["run"], []).append(step["simulated_s"] / step["observed_s"])
    return [share for of_run in errors.values() for share in off_by(of_run)]
