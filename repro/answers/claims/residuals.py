"""By how much simulated times are off, drawn anew for each draw: observed over simulated, as the validation found it,
or emulated over simulated, where a paper has that of the same strategies at a nearer size."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SEED = 20261126  # fixed before the first draw
RATES = ("_per_s",)  # what a time that is longer makes smaller
Steps = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Residual:
    """Observed over simulated step time of a strategy."""

    strategy: str
    factor: float
    options: Mapping[str, Any] = field(default_factory=dict)
    workers: int = 1


@dataclass(frozen=True)
class Twins:
    """Of an experiment that was emulated too: of each of its strategies the emulated over the simulated step.

    bytes: of the gradient.
    """

    bytes: float
    of: list[Residual] = field(default_factory=list)


@dataclass(frozen=True)
class Residuals:
    """Those of each run of the validation of one size, or of each of a paper's experiments that was emulated too.

    The strategies of one run were observed together, so that what their times are off by alike falls out of a ratio.
    part: whether a time may be off by any part of that, as `drawn.towards` has it for a twin.
    """

    runs: Sequence[Sequence[Residual]]
    source: str
    part: bool = False

    def of_draw(self, number: int) -> _OfDraw:
        """Those that a draw takes: of one run."""
        rng = np.random.default_rng([SEED, number + 1])
        own = self.runs[int(rng.integers(len(self.runs)))]
        others = own[int(rng.integers(len(own)))].factor
        return _OfDraw(own, others, float(rng.random()) if self.part else 1.0)


@dataclass(frozen=True)
class _OfDraw:
    own: Sequence[Residual]
    of_others: float
    part: float

    def of(self, run: Mapping[str, Any]) -> float:
        """By which factor a run's times are longer: of its strategy that with the most like options and workers."""
        options, workers = run.get("options") or {}, run.get("workers") or 1

        def like(one: Residual) -> tuple[int, float]:
            same = sum(options.get(name) == value for name, value in one.options.items())
            return same, -abs(math.log(one.workers / workers))

        same = [one for one in self.own if one.strategy == run.get("strategy")]
        return (max(same, key=like).factor if same else self.of_others) ** self.part


def of(
    steps: Steps, family: Collection[str], nbytes: float, twins: Mapping[str, Twins] | None = None
) -> Residuals | None:
    """The residuals for runs of these strategies, a gradient of so many bytes: of the validation's runs with one of
    them those of the nearest size, on a log scale; of all strategies where none of these was validated. Those of
    emulated twins of the paper's other experiments, with one of these strategies, where one is of a nearer size.

    steps: those of the validation's runs: run, strategy, bytes, observed_s, simulated_s. None where there are none.
    twins: of each experiment that was emulated too.
    """

    def away(size: float) -> float:
        return abs(math.log(size / max(nbytes, 1.0)))

    of_family = [step for step in steps if step["strategy"] in family]
    if not steps:
        return None
    sizes = {step["bytes"] for step in of_family or steps}
    nearest = min(sizes, key=lambda size: (away(size), size))
    like = [one for one in (twins or {}).values() if {*family} & {each.strategy for each in one.of}]
    if like and min(away(one.bytes) for one in like) < away(nearest):
        count = sum(len(one.of) for one in like)
        return Residuals([one.of for one in like], f"{count} emulated twins of {len(like)} experiments", part=True)
    runs = {step["run"] for step in of_family or steps if step["bytes"] == nearest}
    found: dict[str, dict[str, float]] = {}
    for step in steps:
        if step["run"] in runs and step["bytes"] == nearest:
            found.setdefault(step["run"], {})[step["strategy"]] = step["observed_s"] / step["simulated_s"]
    made = [[Residual(*each) for each in found[run].items()] for run in sorted(found)]
    count = sum(map(len, made))
    whose = "" if of_family else ", of other strategies"
    beyond = ", extrapolated" if nbytes > 2 * nearest else ""
    return Residuals(made, f"{count} times of {len(made)} runs of {nearest / 1e6:.0f} MB{whose}{beyond}")


def scaled(value: Any, factor: float, name: str = "", within: bool = False) -> Any:
    """A result whose times are longer by a factor: entries that end in `_s`, those of phases, and rates."""
    if isinstance(value, dict):
        inner = within or name in ("phases", "server_phases") or name.endswith("_s")
        return {
            key: (scaled if isinstance(part, dict | list) else _scaled)(part, factor, key, inner)
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [scaled(part, factor, name, within) for part in value]
    return _scaled(value, factor, name, within)


def _scaled(value: Any, factor: float, name: str, within: bool) -> Any:
    if type(value) not in (int, float):
        return value
    if name.endswith(RATES):
        return value / factor
    return value * factor if within or name.endswith("_s") else value
