"""Lossy codecs for gradients on the wire (Pipe-SGD section 3.2): light enough to sit inside every hop of a ring.

A codec turns a float32 vector into a wire tensor and back. No method reads a tensor's value on the host, so the same
code runs on a GPU without stalls and on `meta` tensors without arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from repro.core.errors import unknown
from repro.fabric.meta_tensors import add, empty_like

LOW_16_BITS = 0xFFFF
SMALLEST = 2.0**-149  # of float32's positive numbers


class Codec(ABC):
    """float32 vector (n,) -> wire tensor -> float32 vector (n,).

    `seed` is that of what is random in encoding; most codecs draw nothing.
    """

    name: str
    lossless: bool = False

    def __init__(self, seed: int = 0):
        self.seed = seed

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
        if mine.is_meta:  # without arithmetic: each of the dozen operations below would take longer than a message
            return self.like(mine)
        total = self.decode(mine, torch.empty(n, device=mine.device))
        total += self.decode(incoming, torch.empty(n, device=mine.device))
        return self.encode_in_place(total)

    def encode_in_place(self, values: torch.Tensor) -> torch.Tensor:
        """As `encode`, the same bits, with `values` as scratch."""
        return self.encode(values)

    def state_dict(self) -> dict[str, Any]:
        """What the next `encode` depends on besides its vector: nothing, but for codecs that draw random numbers."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where `state_dict` was called."""


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
        return empty_like(wire)

    def wire_bytes(self, n: int) -> int:
        return 4 * n

    def add(self, mine: torch.Tensor, incoming: torch.Tensor, n: int) -> torch.Tensor:
        return add(mine, incoming)


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
        return empty_like(wire)

    def wire_bytes(self, n: int) -> int:
        return 2 * n


class Quantize8(Codec):
    """Round to 255 levels between -m and m, m the largest magnitude of the vector ("8-bit quantization"), halves to
    the even one.

    Wire: m as float32 (4 bytes), then one int8 an element. A vector with an infinity or NaN decodes to NaN, so that
    divergence stays visible.

    Every element comes back within half a step, m / 254, and what float32's own rounding adds: 2^-22 m and 2^-150. The
    latter counts where m is subnormal: all values are then multiples of 2^-149, and of the 129 from 0 to 128 x 2^-149
    no codec with 128 levels brings all back within half a step alone.
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
        return empty_like(wire)

    def wire_bytes(self, n: int) -> int:
        return self.HEADER + n


class Ternary(Codec):
    """TernGrad (Wen et al., NIPS 2017, Pipe-SGD's reference [50]): each element becomes sign(g) s with probability
    |g| / s, else 0, where s is the largest magnitude of the vector; the expectation is g.

    Wire: s as float32 (4 bytes), then 2 bits an element (1: s, 2: -s), four to a byte: with q = ceil(n / 4), byte i has
    elements i, q + i, 2 q + i and 3 q + i, the first in its lowest bits. The largest element always stays; the others'
    probabilities are off by less than 2^-24. A vector with an infinity or NaN decodes to NaN throughout, so that
    divergence stays visible.

    Noise comes from a generator of its own, so nothing else that draws numbers changes the bits; it is made on the
    device of the first vector.
    """

    name = "ternary"
    HEADER = 4

    def __init__(self, seed: int = 0):
        super().__init__(seed)
        self.generator: torch.Generator | None = None
        self.resumed: torch.Tensor | None = None  # the generator's state, until there is one to have it

    def encode(self, values: torch.Tensor) -> torch.Tensor:
        return self._encode(values, torch.div)

    def encode_in_place(self, values: torch.Tensor) -> torch.Tensor:
        return self._encode(values, torch.Tensor.div_)

    def _encode(self, values: torch.Tensor, divide: Callable[..., torch.Tensor]) -> torch.Tensor:
        n = values.numel()
        wire = torch.empty(self.wire_bytes(n), dtype=torch.uint8, device=values.device)
        if values.is_meta:
            return wire
        if n == 0:
            return wire.zero_()
        low, high = torch.aminmax(values)
        largest = torch.maximum(-low, high)
        wire[: self.HEADER].view(torch.float32).copy_((largest * 0 + largest).abs())  # NaN for an infinity
        relative = divide(values, largest.clamp_min(SMALLEST))
        uniform = self._uniform(values)  # in [0, 1): the largest is always above it, and a zero never
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

    def decode(self, wire: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        if out.is_meta:
            return out
        n, packed = out.numel(), wire[self.HEADER :]
        codes = torch.empty(4 * packed.numel(), dtype=torch.uint8, device=wire.device)
        for place, strip in enumerate(codes.view(4, -1)):
            torch.bitwise_right_shift(packed, 2 * place, out=strip)
        codes.bitwise_and_(3)
        signs = torch.bitwise_and(codes, 1).sub_(codes.bitwise_right_shift_(1)).view(torch.int8)
        return torch.mul(signs[:n], wire[: self.HEADER].view(torch.float32), out=out)

    def like(self, wire: torch.Tensor) -> torch.Tensor:
        return empty_like(wire)

    def wire_bytes(self, n: int) -> int:
        return self.HEADER + -(-n // 4)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.resumed if self.generator is None else self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator, self.resumed = None, state["generator"]
        if self.resumed is not None:
            self.resumed = self.resumed.cpu()


CODECS = {codec.name: codec for codec in (NoCodec, Truncate16, Quantize8, Ternary)}


def codec(name: str, seed: int = 0) -> Codec:
    """The codec of that name; InputError listing the names otherwise. `seed`: of its random numbers, if it has any."""
    if name not in CODECS:
        raise unknown("codec", name, CODECS)
    return CODECS[name](seed)
