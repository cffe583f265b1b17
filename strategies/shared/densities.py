"""How many gradients leave a worker in which epoch: warm-up densities, then the density (gTop-k section IV-B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro.common.errors import InputError
from repro.common.fields import Share


@dataclass(frozen=True)
class Densities:
    """density: rho, above 0 and at most 1; warmup: one an epoch for the first epochs."""

    density: Share
    warmup: Sequence[Share] = ()

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
