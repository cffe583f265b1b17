"""What an injector of load imbalance is: each worker's delay in each iteration, drawn from the seed alone."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from repro.core import registry


@dataclass
class NoOptions:
    """An injector without options."""


class Imbalance(ABC):
    """`delays(iteration)`: seconds (workers,) that each worker sleeps before the iteration's forward pass.

    `Options` is a dataclass of the options with their defaults; its `__post_init__` raises InputError on values that
    cannot be used. Delays depend on the options, the number of workers, the seed and the iteration and on nothing else:
    every strategy of an experiment meets the same, in whatever order its ranks ask, and after every resume.
    """

    name: ClassVar[str]
    Options: ClassVar[type] = NoOptions

    def __init__(self, options: Any, workers: int, seed: int):
        """InputError for options that do not go with so many workers."""
        self.options, self.workers, self.seed = options, workers, seed

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Any:
        """The options from a mapping; InputError naming an unknown one and the valid ones."""
        return registry.parse("imbalance", cls.name, cls.Options, given, "imbalance")

    @classmethod
    def checksum(cls, options: Any) -> str | None:
        """The SHA-256 of a file that the delays come from, for a run's key; None: the options say all."""
        return None

    @property
    @abstractmethod
    def longest(self) -> float:
        """No delay is longer, in seconds. With it a gradient's staleness has a bound."""

    @abstractmethod
    def delays(self, iteration: int) -> list[float]:
        """Seconds of each worker (workers,), all 0 or more; iterations count from 0."""

    def draws(self, iteration: int) -> random.Random:
        """Random numbers of (seed, iteration), the same on every rank and machine."""
        return random.Random(f"imbalance/{self.seed}/{iteration}")  # of a text: by its SHA-512, not Python's hash


def is_number(value: Any) -> bool:
    """Whether a value is a finite number (and neither true nor false)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
