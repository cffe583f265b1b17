"""The allreduce "auto": the library's own, or the pipelined ring for vectors above a size measured at start.

On TCP links the pipelined ring carries large vectors at nearly the links' rate, which not every library does; libraries
are good at short vectors, which need few rounds. `repro.fabric.collectives.crossover` measures the size.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

NATIVE, RING = "native", "ring_pipelined"


@dataclass(frozen=True)
class Point:
    """The seconds of an allreduce of a size: the slowest rank's, the minimum of a few repetitions."""

    bytes: int
    native_s: float
    ring_s: float


@dataclass(frozen=True)
class Crossover:
    """Vectors of at least `above_bytes` use the pipelined ring; None: all use the library."""

    above_bytes: int | None
    why: str
    measured: tuple[Point, ...] = ()

    def algorithm(self, tensor: torch.Tensor) -> str:
        """The algorithm for a tensor.

        A GPU tensor uses the library: the ring would copy each piece to the host and back.
        """
        large = self.above_bytes is not None and tensor.nbytes >= self.above_bytes
        return RING if large and not tensor.is_cuda else NATIVE

    def facts(self) -> dict[str, Any]:
        """The choice and its measurements, for the record of a run."""
        auto = NATIVE if self.above_bytes is None else f"{RING} from {self.above_bytes} bytes"
        return {
            "auto": auto,
            "above_bytes": self.above_bytes,
            "why": self.why,
            "measured": [asdict(point) for point in self.measured],
        }
