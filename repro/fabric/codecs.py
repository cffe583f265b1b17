"""Lossy codecs for gradients on the wire (Pipe-SGD section 3.2): light enough to sit inside every hop of a ring.

A codec turns a float32 vector into a wire tensor and back. No method reads a tensor's value on the host, so the same
code runs on a GPU without stalls and on `meta` tensors without arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch

from repro.errors import unknown

LOW_16_BITS = 0xFFFF
SMALLEST = 2.0**-149  # of float32's positive numbers


class Codec(ABC):
    """float32 vector (n,) -> wire tensor -> float32 vector (n,)."""

    name: ClassVar[str]
    lossless: ClassVar[bool] = False

    @abstractmethod
    def encode(self, values: torch.Tensor) -> torch.Tensor:
        """The wire form of a contiguous float32 vector; never shares memory with it unless the codec is `none`."""

    @abstractmethod
    def decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """The values of a wire form, into `out` (n,); returns `out`."""

    @abstractmethod
    def like(self, wire: torch.Tensor) -> torch.Tensor:
        """An empty wire tensor of the same size, to receive into."""

    @abstractmethod
    def wire_bytes(self, n: int) -> int:
        """Bytes on the wire for n elements."""

    def add(self, mine: torch.Tensor, incoming: torch.Tensor, n: int) -> torch.Tensor:
        """One hop of a ring: decompress both, sum, compress (section 3.2). Returns the wire form of the sum."""
        total = self.decode(mine, torch.empty(n, device=mine.device))
        total += self.decode(incoming, torch.empty(n, device=mine.device))
        return self.encode_in_place(total)

    def encode_in_place(self, values: torch.Tensor) -> torch.Tensor:
        """As `encode`, the same bits, with `values` as scratch."""
        return self.encode(values)


class NoCodec(Codec):
    """The values themselves: encode and decode move nothing."""

    name = "none"
    lossless = True

    def encode(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        if wire.data_ptr() != out.data_ptr():
            out.copy_(wire)
        return out

    def like(self, wire: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(wire)

    def wire_bytes(self, n: int) -> int:
        return 4 * n

    def add(self, mine: torch.Tensor, incoming: torch.Tensor, n: int) -> torch.Tensor:
        return mine.add_(incoming)


class Truncate16(Codec):
    """Drop the low 16 of float32's 23 mantissa bits: 2 bytes an element, rounding towards zero ("16-bit truncation").

    What is left is bfloat16's layout. A NaN whose payload lies in the low bits only would become infinity; arithmetic
    makes no such NaN.
    """

    name = "truncate16"

    def encode(self, values: torch.Tensor) -> torch.Tensor:
        # once the low bits are cleared the conversion to bfloat16 is exact, and vectorised where a strided copy is not
        return (values.view(torch.int32) & ~LOW_16_BITS).view(torch.float32).to(torch.bfloat16)

    def encode_in_place(self, values: torch.Tensor) -> torch.Tensor:
        values.view(torch.int32).bitwise_and_(~LOW_16_BITS)
        return values.to(torch.bfloat16)

    def decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(wire)

    def like(self, wire: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(wire)

    def wire_bytes(self, n: int) -> int:
        return 2 * n


class Quantize8(Codec):
    """Round to 255 levels between -m and m, m the largest magnitude of the vector ("8-bit quantization").

    Wire: m as float32 (4 bytes), then one int8 an element. A vector with an infinity or NaN decodes to NaN, so that
    divergence stays visible.
    """

    name = "quantize8"
    LEVELS = 127
    HEADER = 4

    def encode(self, values: torch.Tensor) -> torch.Tensor:
        return self._encode(values, torch.div)

    def encode_in_place(self, values: torch.Tensor) -> torch.Tensor:
        return self._encode(values, torch.Tensor.div_)

    def _encode(self, values: torch.Tensor, divide: Callable[..., torch.Tensor]) -> torch.Tensor:
        wire = torch.empty(self.wire_bytes(values.numel()), dtype=torch.int8, device=values.device)
        if values.numel() == 0:
            return wire.zero_()
        low, high = torch.aminmax(values)
        largest = torch.maximum(-low, high)
        wire[: self.HEADER].view(torch.float32).copy_(largest)
        # first the quotient: LEVELS / largest would overflow for tiny ranges. An all-zero vector divides by SMALLEST.
        relative = divide(values, largest.clamp_min(SMALLEST))
        wire[self.HEADER :].copy_(relative.mul_(self.LEVELS).round_())
        return wire

    def decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        if out.numel():
            # in this order the largest comes back exactly, and the largest float does not overflow
            torch.div(wire[self.HEADER :], self.LEVELS, out=out).mul_(wire[: self.HEADER].view(torch.float32))
        return out

    def like(self, wire: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(wire)

    def wire_bytes(self, n: int) -> int:
        return self.HEADER + n


CODECS = {codec.name: codec for codec in (NoCodec, Truncate16, Quantize8)}


def codec(name: str) -> Codec:
    """The codec of that name; InputError listing the names otherwise."""
    if name not in CODECS:
        raise unknown("codec", name, CODECS)
    return CODECS[name]()
