"""Lossy codecs for gradients (Pipe-SGD section 3.2), cheap enough to run in every hop of a ring.

A codec converts a float32 vector to a wire tensor and back. No method reads a tensor's value on the host, so the code
runs on a GPU without stalls, and on meta tensors without arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch

from repro.core.errors import unknown_name
from repro.fabric.meta_tensors import add_tensor
from repro.fabric.option_names import CodecName

LOW_16_BITS = 0xFFFF
SMALLEST = 2.0**-149  # of float32's positive numbers


class Codec(ABC):
    """float32 vector (n,) -> wire tensor -> float32 vector (n,). seed: for codecs that draw random numbers."""

    name: CodecName
    lossless: bool = False
    wire_type: torch.dtype = torch.float32  # of the wire tensor's entries

    def __init__(self, seed: int = 0):
        self.seed = seed

    def encode(self, values: torch.Tensor) -> torch.Tensor:
        """The wire tensor of a contiguous float32 vector; it shares no memory with the vector, except for `none`.

        On the meta device nothing is computed, as torch's operations there take longer than a simulated message.
        """
        return self._empty_wire(values) if values.is_meta else self._encode(values)

    def encode_in_place(self, values: torch.Tensor) -> torch.Tensor:
        """As `encode`, with the same bits, but overwrites `values`."""
        return self._empty_wire(values) if values.is_meta else self._encode(values, in_place=True)

    def decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Decode a wire tensor into `out` (n,); returns `out`."""
        return out if out.is_meta else self._decode(wire, out)

    @abstractmethod
    def _encode(self, values: torch.Tensor, in_place: bool = False) -> torch.Tensor:
        """The wire tensor; in_place: `values` may be overwritten."""

    @abstractmethod
    def _decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Decode into `out`; returns it."""

    def _empty_wire(self, values: torch.Tensor) -> torch.Tensor:
        """An uninitialised wire tensor of these values."""
        entries = self.wire_bytes(values.numel()) // self.wire_type.itemsize
        return torch.empty(entries, dtype=self.wire_type, device=values.device)

    @abstractmethod
    def wire_bytes(self, n: int) -> int:
        """The size in bytes of the wire tensor of n elements."""

    def add(self, mine: torch.Tensor, incoming: torch.Tensor, n: int) -> torch.Tensor:
        """One hop of a ring (section 3.2): decode both wire tensors, add, encode; returns the sum's wire tensor."""
        if mine.is_meta:
            return mine
        total = self.decode(mine, torch.empty(n, device=mine.device))
        total += self.decode(incoming, torch.empty(n, device=mine.device))
        return self.encode_in_place(total)

    def state_dict(self) -> dict[str, Any]:
        """The state on which the next `encode` depends: empty except for codecs that draw random numbers."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a `state_dict`."""


class NoCodec(Codec):
    """No compression: the wire tensor is the vector itself."""

    name = "none"
    lossless = True

    def encode(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def _encode(self, values: torch.Tensor, in_place: bool = False) -> torch.Tensor:
        return values

    def _decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        if wire.data_ptr() != out.data_ptr():
            out.copy_(wire)
        return out

    def wire_bytes(self, n: int) -> int:
        return 4 * n

    def add(self, mine: torch.Tensor, incoming: torch.Tensor, n: int) -> torch.Tensor:
        return add_tensor(mine, incoming)


class Truncate16(Codec):
    """Drop the low 16 of float32's 23 mantissa bits ("16-bit truncation"): 2 bytes an element, rounded towards zero.

    The result has bfloat16's layout. A NaN whose payload lies only in the low bits would become infinity; arithmetic
    produces no such NaN.
    """

    name = "truncate16"
    wire_type = torch.bfloat16

    def _encode(self, values: torch.Tensor, in_place: bool = False) -> torch.Tensor:
        # with the low bits cleared the conversion to bfloat16 is exact; unlike a strided copy it is vectorised
        bits = values.view(torch.int32)
        cleared = bits.bitwise_and_(~LOW_16_BITS) if in_place else bits & ~LOW_16_BITS
        return cleared.view(torch.float32).to(torch.bfloat16)

    def _decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(wire)

    def wire_bytes(self, n: int) -> int:
        return 2 * n


class Scaled(Codec):
    """A codec whose wire tensor is the vector's largest magnitude (float32), then small numbers relative to it."""

    HEADER = 4  # bytes


class Quantize8(Scaled):
    """Round to the nearest of 255 levels between -m and m, where m is the vector's largest magnitude ("8-bit
    quantization"); ties go to the even level.

    The wire tensor has m as float32 (4 bytes), then an int8 for each element. A vector with an infinity or NaN decodes
    to NaN, so that divergence stays visible. The error of an element is at most half a step, m / 254, plus float32's
    own rounding of 2^-22 m and 2^-150; the latter matters only if m is subnormal.
    """

    name = "quantize8"
    LEVELS = 127
    wire_type = torch.int8

    def _encode(self, values: torch.Tensor, in_place: bool = False) -> torch.Tensor:
        wire = self._empty_wire(values)
        if values.numel() == 0:
            return wire.zero_()
        low, high = torch.aminmax(values)
        largest = torch.maximum(-low, high)
        wire[: self.HEADER].view(torch.float32).copy_(largest)
        # divide first, because LEVELS / largest overflows for tiny ranges; an all-zero vector divides by SMALLEST
        relative = torch.div(values, largest.clamp_min(SMALLEST), out=values if in_place else None)
        wire[self.HEADER :].copy_(relative.mul_(self.LEVELS).round_())
        return wire

    def _decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        if out.numel():
            # in this order the largest magnitude is restored exactly, and the largest float does not overflow
            torch.div(wire[self.HEADER :], self.LEVELS, out=out).mul_(wire[: self.HEADER].view(torch.float32))
        return out

    def wire_bytes(self, n: int) -> int:
        return self.HEADER + n


class Ternary(Scaled):
    """TernGrad (Wen et al., NIPS 2017, Pipe-SGD's reference [50]): an element g becomes sign(g) s with probability
    |g| / s, else 0, where s is the vector's largest magnitude; the expectation is g.

    The wire tensor has s as float32 (4 bytes), then 2 bits for each element (1: s, 2: -s), four to a byte: with
    q = ceil(n / 4), byte i has the elements i, q + i, 2 q + i and 3 q + i, the first in its lowest bits. The largest
    element is always kept; the probabilities of the others are exact to 2^-24. A vector with an infinity or NaN decodes
    to NaN, so that divergence stays visible. The codec has a random generator of its own, on the first vector's device.
    """

    name = "ternary"
    wire_type = torch.uint8

    def __init__(self, seed: int = 0):
        super().__init__(seed)
        self.generator: torch.Generator | None = None
        self.resumed: torch.Tensor | None = None  # a loaded state, until the generator exists

    def _encode(self, values: torch.Tensor, in_place: bool = False) -> torch.Tensor:
        n, wire = values.numel(), self._empty_wire(values)
        if n == 0:
            return wire.zero_()
        low, high = torch.aminmax(values)
        largest = torch.maximum(-low, high)
        wire[: self.HEADER].view(torch.float32).copy_((largest * 0 + largest).abs())  # NaN for an infinity
        relative = torch.div(values, largest.clamp_min(SMALLEST), out=values if in_place else None)
        uniform = self._uniform(values)  # in [0, 1): always below the largest, never below a zero
        quarter = wire.numel() - self.HEADER
        codes = torch.empty(4 * quarter, dtype=torch.uint8, device=values.device)
        codes[n:].zero_()
        torch.gt(relative, uniform, out=codes[:n].view(torch.bool))
        negative = torch.lt(relative, uniform.neg_())
        codes[:n].add_(negative.view(torch.uint8), alpha=2)
        packed = wire[self.HEADER :].copy_(codes[:quarter])
        for place in (1, 2, 3):
            packed.add_(codes[place * quarter : (place + 1) * quarter], alpha=1 << 2 * place)
        return wire

    def _uniform(self, values: torch.Tensor) -> torch.Tensor:
        if self.generator is None:
            self.generator = torch.Generator(values.device).manual_seed(self.seed)
            if self.resumed is not None:
                self.generator.set_state(self.resumed)
        return torch.rand(values.shape, generator=self.generator, device=values.device)

    def _decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        n, packed = out.numel(), wire[self.HEADER :]
        codes = torch.empty(4 * packed.numel(), dtype=torch.uint8, device=wire.device)
        for place, strip in enumerate(codes.view(4, -1)):
            torch.bitwise_right_shift(packed, 2 * place, out=strip)
        codes.bitwise_and_(3)
        signs = torch.bitwise_and(codes, 1).sub_(codes.bitwise_right_shift_(1)).view(torch.int8)
        return torch.mul(signs[:n], wire[: self.HEADER].view(torch.float32), out=out)

    def wire_bytes(self, n: int) -> int:
        return self.HEADER + -(-n // 4)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.resumed if self.generator is None else self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator, self.resumed = None, state["generator"]
        if self.resumed is not None:
            self.resumed = self.resumed.cpu()


CODECS = {codec.name: codec for codec in (NoCodec, Truncate16, Quantize8, Ternary)}


def make_codec(name: str, seed: int = 0) -> Codec:
    """The codec `name`; InputError listing the valid names for another. seed: of its random numbers, if any."""
    if name not in CODECS:
        raise unknown_name("codec", name, CODECS)
    return CODECS[name](seed)
