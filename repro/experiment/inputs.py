"""Assumed inputs as distributions (docs/design.md, Inputs): values that a paper does not print are drawn jointly, the
same draws for every variant of a paper.

    inputs:                                   # of a testbed, or of an experiment (paths of the whole configuration)
      beta:                                   # an input and its entries; the configured value is the best guess
        entries: {beta_s_per_byte: {low: 8.0e-10, high: 1.1e-9}}
        source: "line rate without headers, to 70 % of it"
      computation:                            # as shares of the best guess
        entries: {device.iteration_s: {low: 0.8, high: 1.25, of: share}}
        source: "..."
      minibatch:                              # hypotheses; their weights add up to 1
        choices:
          - {weight: 0.5, sets: {batch: 256}, source: "..."}
          - {weight: 0.5, sets: {batch: 2048}, source: "..."}
        printed:                              # what a printed number leaves of an entry: no draw may be outside
          batch: {high: 512, source: "section 5: at most 512 fit the memory"}
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from repro.core.errors import InputError, unknown_name
from repro.core.fields import Model, NonNegative, Positive, Share, Text, entry_at
from repro.core.input_names import DIMENSIONS, describe_names, read_names

if TYPE_CHECKING:
    import numpy as np

MOST_DRAWS = 4096
SCRAMBLED_BY = 20261126  # seed, fixed before the first draw
KEPT_DRAWS, SOBOL_BITS = 64, 30
# the first draws in units of 2^-SOBOL_BITS; `python -m repro.experiment.inputs` writes it, a test holds it to these
FIRST_DRAWS = pathlib.Path(__file__).with_name("first_draws.json")
SAME = 1e-9  # tolerance of the sum of weights

Path = Annotated[str, Field(min_length=1, max_length=200)]


class Range(Model):
    """The range of an entry's value, or of the value as a share of the configured one."""

    part = "inputs.entries"

    low: NonNegative
    high: Positive
    of: Literal["value", "share"] = "value"

    @model_validator(mode="after")
    def _wide(self) -> Range:
        if not self.low < self.high:
            raise ValueError(f"low={self.low:g} must be below high={self.high:g}")
        return self

    def at(self, quantile: float, guess: float) -> float:
        """The value at a quantile of the distribution: piecewise uniform on a log scale (linear if low is 0), with the
        guess as median if it is inside the range."""
        import numpy as np  # `repro list` does not need it

        by = guess if self.of == "share" else 1.0
        low, high = self.low * by, self.high * by
        at, values = ([0.0, 0.5, 1.0], [low, guess, high]) if low < guess < high else ([0.0, 1.0], [low, high])
        if low > 0:
            return float(np.exp(np.interp(quantile, at, np.log(values))))
        return float(np.interp(quantile, at, values))


class Choice(Model):
    """A hypothesis: the entries that it sets, and its weight among the others."""

    part = "inputs.choices"

    weight: Share
    sets: dict[Path, Any]
    source: Annotated[str, Field(min_length=1)]


class Printed(Model):
    """The values of an entry that a printed number of the paper leaves."""

    part = "inputs.printed"

    low: NonNegative | None = None
    high: Positive | None = None
    source: Annotated[str, Field(min_length=1)]

    def excludes(self, value: float) -> bool:
        return (self.low is not None and value < self.low) or (self.high is not None and value > self.high)


class Input(Model):
    """One unknown: a range of entries, which move together, or a choice between hypotheses."""

    part = "inputs"

    entries: dict[Path, Range] = Field(default_factory=dict)
    choices: list[Choice] = Field(default_factory=list)
    source: str = ""
    printed: dict[Path, Printed] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_both(self) -> Input:
        if bool(self.entries) == bool(self.choices):
            raise ValueError("needs either entries or choices")
        if self.entries and not self.source.strip():
            raise ValueError("has no source; must name the source of low and high")
        if self.choices and abs(sum(choice.weight for choice in self.choices) - 1) > SAME:
            weights = " + ".join(f"{choice.weight:g}" for choice in self.choices)
            raise ValueError(f"weights {weights} must add up to 1")
        return self

    @property
    def excluded(self) -> str:
        """The first value that a printed number excludes, and that number; "" if there is none."""
        every = ((path, printed, value) for path, printed in self.printed.items() for value in self._values(path))
        words = (
            f"{path}={value:g} is excluded by a printed number: {printed.source}"
            for path, printed, value in every
            if printed.excludes(value)
        )
        return next(words, "")

    def _values(self, path: str) -> list[float]:
        """The ends of an entry's range of values, and what the choices set it to."""
        drawn = self.entries.get(path)
        ends = [drawn.low, drawn.high] if drawn and drawn.of == "value" else []
        return ends + [choice.sets[path] for choice in self.choices if path in choice.sets]

    def drawn(self, quantile: float, configured: Mapping[str, Any]) -> dict[str, Any]:
        """path -> value of the entries at a quantile; {} if the configuration does not have the cost."""
        if self.choices:
            import numpy as np

            ends = np.cumsum([choice.weight for choice in self.choices])
            return dict(self.choices[min(int(np.searchsorted(ends, quantile, "right")), len(ends) - 1)].sets)
        guesses = {path: entry_at(configured, path) for path in self.entries}
        if any(guess is None or (self.entries[path].of == "share" and not guess) for path, guess in guesses.items()):
            return {}
        return {path: entry.at(quantile, float(guesses[path])) for path, entry in self.entries.items()}


Inputs = dict[Text, Input]


@dataclass(frozen=True)
class Quantiles:
    """Measured values of a testbed's entry; between two of them a draw is uniform on a log scale."""

    path: str
    values: tuple[float, ...]

    @classmethod
    def of(cls, path: str, values: Iterable[float]) -> Quantiles:
        return cls(path, tuple(sorted(values)))

    def at(self, quantile: float) -> float:
        """The value at a quantile."""
        import numpy as np

        return float(np.exp(np.interp(quantile, np.linspace(0, 1, len(self.values)), np.log(self.values))))

    def drawn(self, quantile: float, configured: Mapping[str, Any]) -> dict[str, Any]:
        """path -> value, as of an `Input`."""
        return {self.path: self.at(quantile)}


def _dimension(name: str) -> int:
    """The project's inputs have the first dimensions, those of another folder the last: no folder shifts another's."""
    ours, *others = read_names()
    if name in ours:
        return list(ours).index(name)
    texts = next(texts for texts in others if name in texts)
    return DIMENSIONS - 1 - [each for each in texts if each not in ours].index(name)


def check_inputs(inputs: Inputs, where: str) -> None:
    """InputError for an input that no `inputs.yaml` names, or with a value that a printed number excludes."""
    for name, distribution in inputs.items():
        if name not in describe_names():
            raise InputError(
                f"{where}: {unknown_name('input', name, describe_names())} (inputs.yaml beside experiment/ names them)"
            )
        if distribution.excluded:
            raise InputError(f"{where}: input {name}: {distribution.excluded}")


@cache
def _sequence(draws: int) -> np.ndarray:
    """(draws, DIMENSIONS): the scrambled Sobol sequence, from FIRST_DRAWS as far as that has it."""
    import numpy as np

    if draws <= KEPT_DRAWS:
        return np.array(json.loads(FIRST_DRAWS.read_text(encoding="utf-8"))[:draws]) / 2**SOBOL_BITS
    return make_sequence(draws)


def make_sequence(draws: int) -> np.ndarray:
    from scipy.stats import qmc  # its import takes longer than all that `repro recommend` computes

    return qmc.Sobol(DIMENSIONS, scramble=True, bits=SOBOL_BITS, rng=SCRAMBLED_BY).random(draws)


def draw_quantiles(name: str, draws: int) -> np.ndarray:
    """The quantiles of an input (draws,): a prefix of its dimension of a scrambled Sobol sequence. draws: a power of
    two."""
    return _sequence(draws)[:, _dimension(name)]


def check_draws(draws: int) -> None:
    """InputError for a number of draws that is no power of two, or too large."""
    if not isinstance(draws, int) or not 2 <= draws <= MOST_DRAWS or draws & (draws - 1):
        raise InputError(f"--draws {draws!r:.60}: must be a power of two, 2 to {MOST_DRAWS}")


if __name__ == "__main__":
    rows = (make_sequence(KEPT_DRAWS) * 2**SOBOL_BITS).astype(int).tolist()
    FIRST_DRAWS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")
