"""The base class of injectors of load imbalance."""

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
    """An injector; `delays(iteration)` are the seconds (workers,) that each worker sleeps before its forward pass.

    `Options` is a dataclass of the options with their defaults; its `__post_init__` raises InputError for unusable
    values. Delays depend only on the options, the number of workers, the seed and the iteration. So they are the same
    for all strategies of an experiment, on every rank and after every resume.
    """

    name: ClassVar[str]
    Options: ClassVar[type] = NoOptions

    def __init__(self, options: Any, workers: int, seed: int):
        """InputError for options that do not fit the number of workers."""
        self.options, self.workers, self.seed = options, workers, seed

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Any:
        """The options from a mapping; InputError naming an unknown one and the valid ones."""
        return registry.parse_options("imbalance", cls.name, cls.Options, options, "imbalance")

    @classmethod
    def checksum(cls, options: Any) -> str | None:
        """The SHA-256 of the file of delays, for a run's key; None if there is none."""
        return None

    @property
    @abstractmethod
    def longest(self) -> float:
        """An upper bound of the delays in seconds, which bounds a gradient's staleness."""

    @abstractmethod
    def delays(self, iteration: int) -> list[float]:
        """The delay of each worker in seconds (workers,), at least 0; iterations count from 0."""

    def draws(self, iteration: int) -> random.Random:
        """A random generator seeded by (seed, iteration), the same on every rank and machine."""
        return random.Random(f"imbalance/{self.seed}/{iteration}")  # a text seeds by its SHA-512, not by Python's hash


def is_number(value: Any) -> bool:
    """Whether a value is a finite number (and no boolean)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
