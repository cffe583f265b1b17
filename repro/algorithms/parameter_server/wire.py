"""The number format of weights and gradients on the wire between workers and a sharded server."""

from __future__ import annotations

import torch

from repro.fabric.base import Fabric
from repro.fabric.codecs import make_codec

FORMATS = {"float32": "none", "truncate16": "truncate16"}  # option -> codec


class Wire:
    """Encodes float32 vectors (n,) for the wire. In virtual time a conversion takes the codec's time on the host.

    float32     unchanged
    truncate16  the upper two bytes of each number, BigDL's only format, which it calls FP16 (github.com/
                intel-analytics/BigDL, v0.5.0, spark/dl/src/main/scala/com/intel/analytics/bigdl/parameters/
                AllReduceParameter.scala:194 and 275, FP16CompressedTensor.scala). A server's weights stay float32.
    """

    def __init__(self, fabric: Fabric, name: str = "float32"):
        self.fabric, self.codec = fabric, make_codec(FORMATS[name])
        self.plain = self.codec.lossless
        self.dtype = torch.float32 if self.plain else torch.bfloat16

    def empty(self, elements: int, device: torch.device) -> torch.Tensor:
        """A receive buffer for so many elements."""
        return torch.empty(elements, dtype=self.dtype, device=device)

    def encode(self, values: torch.Tensor) -> torch.Tensor:
        if self.plain:
            return values
        with self.fabric.compute(self._seconds("encode", values), "host"):
            return self.empty(values.numel(), values.device) if values.is_meta else self.codec.encode(values)

    def decode(self, sent: torch.Tensor) -> torch.Tensor:
        if self.plain:
            return sent
        with self.fabric.compute(self._seconds("decode", sent), "host"):
            if sent.is_meta:
                return torch.empty(sent.numel(), device=sent.device)
            return self.codec.decode(sent, torch.empty(sent.numel(), device=sent.device))

    def _seconds(self, what: str, vector: torch.Tensor) -> float | None:
        return self.fabric.costs.seconds(f"{what}/{self.codec.name}", 4 * vector.numel())
