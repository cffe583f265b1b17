"""Assumed inputs as distributions (docs/design.md, Inputs): what is not printed is drawn, jointly, the same for every
variant of a paper.

    inputs:                                   # of a testbed; of an experiment, by paths of the whole configuration
      beta:                                   # an input: the entries that it is; the configured value is the best guess
        entries: {beta_s_per_byte: {low: 8.0e-10, high: 1.1e-9}}
        source: "line rate without headers, to 70 % of it"
      computation:                            # as shares of the best guess
        entries: {device.iteration_s: {low: 0.8, high: 1.25, of: share}}
        source: "..."
      minibatch:                              # hypotheses, whose weights add up to 1
        choices:
          - {weight: 0.5, sets: {batch: 256}, source: "..."}
          - {weight: 0.5, sets: {batch: 2048}, source: "..."}
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from repro.core import config_folders, yaml_files
from repro.core.errors import InputError, unknown
from repro.core.fields import Model, NonNegative, Positive, Share, Text

if TYPE_CHECKING:
    import numpy as np

DIMENSIONS = 32  # of the Sobol sequence; each input that an `inputs.yaml` names has its own
MOST_DRAWS = 4096
SCRAMBLED_BY = 20261126  # a seed, fixed before the first draw
SAME = 1e-9

Path = Annotated[str, Field(min_length=1, max_length=200)]


class Range(Model):
    """Between which values an entry lies, or between which shares of its configured value."""

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
        """The value below which a share `quantile` of the distribution lies.

        Half of it lies below the guess where that is within the range; between, it is even on a log scale, or where
        that has no beginning, at 0, on a linear one.
        """
        import numpy as np  # which `repro list` does without

        by = guess if self.of == "share" else 1.0
        low, high = self.low * by, self.high * by
        at, values = ([0.0, 0.5, 1.0], [low, guess, high]) if low < guess < high else ([0.0, 1.0], [low, high])
        if low > 0:
            return float(np.exp(np.interp(quantile, at, np.log(values))))
        return float(np.interp(quantile, at, values))


class Choice(Model):
    """A hypothesis: the entries that it sets, and how much it weighs among the others."""

    part = "inputs.choices"

    weight: Share
    sets: dict[Path, Any]
    source: Annotated[str, Field(min_length=1)]


class Input(Model):
    """One unknown: a range of entries, which move together, or a choice between hypotheses."""

    part = "inputs"

    entries: dict[Path, Range] = Field(default_factory=dict)
    choices: list[Choice] = Field(default_factory=list)
    source: str = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> Input:
        if bool(self.entries) == bool(self.choices):
            raise ValueError("needs entries, or choices, and not both")
        if self.entries and not self.source.strip():
            raise ValueError("has no source; must say from where low and high are")
        if self.choices and abs(sum(choice.weight for choice in self.choices) - 1) > SAME:
            weights = " + ".join(f"{choice.weight:g}" for choice in self.choices)
            raise ValueError(f"weights {weights} must add up to 1")
        return self

    def drawn(self, quantile: float, configured: Mapping[str, Any]) -> dict[str, Any]:
        """The entries' values at a quantile; nothing of a cost that the configuration does not charge."""
        if self.choices:
            import numpy as np

            ends = np.cumsum([choice.weight for choice in self.choices])
            return dict(self.choices[min(int(np.searchsorted(ends, quantile, "right")), len(ends) - 1)].sets)
        guesses = {path: at(configured, path) for path in self.entries}
        if not all(
            guesses[path] if one.of == "share" else guesses[path] is not None for path, one in self.entries.items()
        ):
            return {}
        return {path: one.at(quantile, float(guesses[path])) for path, one in self.entries.items()}


Inputs = dict[Text, Input]


def at(values: Mapping[str, Any], path: str) -> Any:
    """The entry at a path of names; None where there is none."""
    node: Any = values
    for name in path.split("."):
        if not isinstance(node, Mapping) or name not in node:
            return None
        node = node[name]
    return node


def words() -> dict[str, str]:
    """What each input is, in words, by its name: `inputs.yaml` of `paper_configs/` and of other people's folders."""
    return {name: text for own in reversed(_named()) for name, text in own.items()}


def _named() -> list[dict[str, str]]:
    """The project's own file and the others'."""
    files = [folder / "inputs.yaml" for folder in config_folders.folders()]
    found = [(path, yaml_files.read(path)) for path in files if path.is_file()]
    for path, own in found:
        if not isinstance(own, dict) or not all(isinstance(text, str) for text in own.values()):
            raise InputError(f"{path}: must be names of inputs, each with what it is")
        if len({**found[0][1], **own}) > DIMENSIONS:
            raise InputError(f"{path}: {len(own)} inputs; must be {DIMENSIONS} or fewer with the project's own")
    return [own for _, own in found]


def _dimension(name: str) -> int:
    """The project's inputs have the first dimensions, those of a folder the last, whatever other folders there are."""
    ours, *others = _named()
    if name in ours:
        return list(ours).index(name)
    own = next(own for own in others if name in own)
    return DIMENSIONS - 1 - [each for each in own if each not in ours].index(name)


def check_names(inputs: Mapping[str, Any], where: str) -> None:
    """InputError for an input of another name than `paper_configs/inputs.yaml` has."""
    for name in inputs:
        if name not in words():
            raise InputError(f"{where}: {unknown('input', name, words())} (inputs.yaml beside experiment/ names them)")


@cache
def _sequence(draws: int) -> np.ndarray:
    from scipy.stats import qmc  # takes half a second

    return qmc.Sobol(DIMENSIONS, scramble=True, rng=SCRAMBLED_BY).random(draws)


def quantiles(name: str, draws: int) -> np.ndarray:
    """The quantiles of an input, a draw each: of a scrambled Sobol sequence, of which more draws are a longer prefix.

    draws: a power of two.
    """
    return _sequence(draws)[:, _dimension(name)]


def check_draws(draws: int) -> int:
    """InputError for a number of draws that is no power of two, or too large."""
    if not 2 <= draws <= MOST_DRAWS or draws & (draws - 1):
        raise InputError(f"--draws {draws}: must be a power of two, 2 to {MOST_DRAWS}")
    return draws
