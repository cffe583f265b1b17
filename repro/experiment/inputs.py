"""The ends of a simulated testbed's assumed inputs: what a result becomes where one of them is as low or as high as it
may be (docs/design.md, Verdicts), all else as guessed.

    bounds:                                   # of a testbed
      beta:                                   # an input: the entries that it is, each with its low and high
        beta_s_per_byte: {low: 8.0e-10, high: 1.1e-9}
      computation:                            # as shares of the guess
        device.iteration_s: {low: 0.8, high: 1.25, of: share}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.experiment.testbeds import Modelled, Ranks
from repro.records.tidy import AS_GUESSED, INPUT

FACTOR, BASE = INPUT, AS_GUESSED  # the factor that says which end a run is at; where it is at none


def ends(testbed: Ranks) -> dict[str, list[str]]:
    """`beta, low` -> the overrides that set it, and `base` without any; nothing for a testbed without bounds.

    Left out is an input of which the testbed has no entry, or a share of a cost that it does not charge.
    """
    if not isinstance(testbed, Modelled) or not testbed.bounds:
        return {}
    values = testbed.model_dump(exclude_unset=True)
    overrides: dict[str, list[str]] = {BASE: []}
    for name, entries in testbed.bounds.items():
        guesses = {path: _at(values, path) for path in entries}
        known = all(
            guesses[path] is not None if bound.of == "value" else guesses[path] for path, bound in entries.items()
        )
        for end in ("low", "high") if known else ():
            at = {path: bound.end(end, guesses[path] or 0.0) for path, bound in entries.items()}
            overrides[f"{name}, {end}"] = [f"testbed.{path}={value!r}" for path, value in at.items()]
    return overrides


def _at(values: Mapping[str, Any], path: str) -> float | None:
    """The entry at a path of names; None where there is none."""
    node: Any = values
    for name in path.split("."):
        if not isinstance(node, Mapping) or name not in node:
            return None
        node = node[name]
    return float(node)
