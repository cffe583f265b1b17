"""Which allreduce `auto` is: the library's own, or from a size on that was measured at start the pipelined ring.

On TCP links the pipelined ring carries large vectors at nearly the links' rate, which no library's choice is sure to;
short ones want the fewest rounds, which is what libraries are good at. `repro.fabric.collectives.crossover` measures.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

NATIVE, RING = "native", "ring_pipelined"


@dataclass(frozen=True)
class Point:
    """What a vector of so many bytes took, in seconds: the slowest rank's, the least of a few."""

    bytes: int
    native_s: float
    ring_s: float


@dataclass(frozen=True)
class Crossover:
    """above_bytes: from where on vectors take the pipelined ring; None: all are the library's."""

    above_bytes: int | None
    why: str
    measured: tuple[Point, ...] = ()

    def algorithm(self, tensor: torch.Tensor) -> str:
        """Of a tensor; one on a GPU is the library's, for which a ring would copy each piece to the host and back."""
        large = self.above_bytes is not None and tensor.nbytes >= self.above_bytes
        return RING if large and not tensor.is_cuda else NATIVE

    def facts(self) -> dict[str, Any]:
        """For the record of a run."""
        auto = NATIVE if self.above_bytes is None else f"{RING} from {self.above_bytes} bytes"
        return {
            "auto": auto,
            "above_bytes": self.above_bytes,
            "why": self.why,
            "measured": [asdict(point) for point in self.measured],
        }
