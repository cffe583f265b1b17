"""How many gradients leave a worker in which epoch: warm-up densities, then the density (gTop-k section IV-B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from repro.common.errors import InputError


@dataclass(frozen=True)
class Densities:
    """density: rho, above 0 and at most 1; warmup: one an epoch for the first epochs. InputError for others."""

    density: float
    warmup: Sequence[float] = ()

    def __post_init__(self) -> None:
        if not _density(self.density):
            raise InputError(f"strategy.density={self.density}: must be above 0 and at most 1; the paper uses 0.001")
        if isinstance(self.warmup, str) or not isinstance(self.warmup, Sequence) or not all(map(_density, self.warmup)):
            raise InputError(
                f"strategy.warmup_densities={self.warmup}: must be a list of densities above 0 and at most 1, one an "
                "epoch; the paper's is [0.25,0.0725,0.015,0.004]"
            )

    def at(self, epoch: int) -> float:
        """The density of an epoch, from 0."""
        return self.warmup[epoch] if epoch < len(self.warmup) else self.density

    def k(self, n: int, epoch: int) -> int:
        """Elements of n."""
        return round(self.at(epoch) * n)

    def check(self, n: int) -> None:
        """InputError where a density leaves none of a model's n gradients."""
        for density in (self.density, *self.warmup):
            if round(density * n) < 1:
                raise InputError(
                    f"strategy.density={density:g}: k = density x {n} parameters rounds to 0; "
                    f"must be above {0.5 / n:.2g}"
                )


def _density(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
