"""By how much simulated times are off: what the validation found, observed over simulated, drawn anew for each draw."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SEED = 20261126  # fixed before the first draw
RATES = ("_per_s",)  # what a time that is longer makes smaller
Steps = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Residuals:
    """Observed over simulated step times, by strategy, of each run of the validation of one size.

    The strategies of one run were observed together, so that what their times are off by alike falls out of a ratio.
    """

    runs: Sequence[Mapping[str, float]]
    source: str

    def of_draw(self, number: int) -> _OfDraw:
        """Those that a draw takes: of one run of the validation."""
        rng = np.random.default_rng([SEED, number + 1])
        own = self.runs[int(rng.integers(len(self.runs)))]
        return _OfDraw(own, list(own.values())[int(rng.integers(len(own)))])


@dataclass(frozen=True)
class _OfDraw:
    by_strategy: Mapping[str, float]
    of_others: float

    def __getitem__(self, strategy: str | None) -> float:
        return self.by_strategy.get(strategy or "", self.of_others)


def of(steps: Steps, family: Collection[str], nbytes: float) -> Residuals | None:
    """The residuals for runs of these strategies, a gradient of so many bytes: of the validation's runs with one of
    them those of the nearest size, on a log scale; of all strategies where none of these was validated.

    steps: those of the validation's runs: run, strategy, bytes, observed_s, simulated_s. None where there are none.
    """
    of_family = [step for step in steps if step["strategy"] in family]
    if not steps:
        return None
    sizes = {step["bytes"] for step in of_family or steps}
    nearest = min(sizes, key=lambda size: (abs(math.log(size / max(nbytes, 1.0))), size))
    runs = {step["run"] for step in of_family or steps if step["bytes"] == nearest}
    found: dict[str, dict[str, float]] = {}
    for step in steps:
        if step["run"] in runs and step["bytes"] == nearest:
            found.setdefault(step["run"], {})[step["strategy"]] = step["observed_s"] / step["simulated_s"]
    made = [found[run] for run in sorted(found)]
    count = sum(map(len, made))
    whose = "" if of_family else ", of other strategies"
    beyond = ", extrapolated" if nbytes > 2 * nearest else ""
    return Residuals(made, f"{count} times of {len(made)} runs of {nearest / 1e6:.0f} MB{whose}{beyond}")


def scaled(value: Any, factor: float, name: str = "", within: bool = False) -> Any:
    """A result whose times are longer by a factor: entries that end in `_s`, those of phases, and rates."""
    if isinstance(value, dict):
        inner = within or name in ("phases", "server_phases") or name.endswith("_s")
        return {key: scaled(part, factor, key, inner) for key, part in value.items()}
    if isinstance(value, list):
        return [scaled(part, factor, name, within) for part in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if name.endswith(RATES):
        return value / factor
    return value * factor if within or name.endswith("_s") else value
