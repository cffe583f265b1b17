"""The allreduce "auto": the library's own, or the pipelined ring for vectors above a size measured at start.

On TCP links the pipelined ring moves large vectors at nearly the links' rate, which not every library does; libraries
are good at short vectors, which need few rounds. `repro.fabric.collectives.algorithms` measures the size.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

NATIVE, RING = "native", "ring_pipelined"


@dataclass(frozen=True)
class Point:
    """The seconds of an allreduce of `bytes` on the slowest rank: the minimum of a few repetitions."""

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
        """The algorithm for a tensor."""
        large = self.above_bytes is not None and tensor.nbytes >= self.above_bytes
        return (
            RING if large and not tensor.is_cuda else NATIVE
        )  # the ring would copy a GPU's pieces to the host and back

    def facts(self) -> dict[str, Any]:
        """The choice and its measurements, for the record of a run."""
        auto = NATIVE if self.above_bytes is None else f"{RING} from {self.above_bytes} bytes"
        return {"auto": auto, **asdict(self)} | {"measured": [asdict(point) for point in self.measured]}
