"""Sparse gradients: k values with their indices, their wire form, and the top-k operation (gTop-k, Definition 1).

All shapes are static, and only `Sparse.check` reads values on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import torch

from repro.core.errors import Diverged
from repro.fabric.codecs import make_codec
from repro.fabric.option_names import SparseCodecName
from repro.fabric.sparse.on_host import is_among, largest_mask_on_host, merge_topk_on_host, stable_order

EMPTY = 2**31 - 1  # the index of an unused place, whose value is 0
INDEX_BYTES = 4
CODECS = get_args(SparseCodecName)


@dataclass(frozen=True)
class Sparse:
    """k elements of a vector: values (k,) float32, indices (k,) int32.

    Indices are ascending and distinct except for EMPTY. A negative index is a flag: a rank's gradient was not finite
    (`flagged`).
    """

    values: torch.Tensor
    indices: torch.Tensor

    @property
    def k(self) -> int:
        return self.indices.numel()

    def mass(self) -> torch.Tensor:
        """The sum of all magnitudes: a float64 scalar on the device."""
        return self.values.abs().sum(dtype=torch.float64)

    def add_to(self, vector: torch.Tensor) -> None:
        """Add the values to a vector (n,). EMPTY places and flags add 0 to its last and first element."""
        if not vector.is_meta:
            vector.index_add_(0, self.indices.clamp(0, vector.numel() - 1), self.values)

    def clear(self, vector: torch.Tensor) -> None:
        """Set the elements of a vector (n,) at these indices to 0."""
        places = self.indices.clamp(max=vector.numel() - 1)
        # not by assignment, because EMPTY places are clamped to the last element
        vector.index_add_(0, places, torch.where(self.indices == places, -vector[places], 0.0))

    def where(self, mask: torch.Tensor) -> Sparse:
        """A copy with value 0 where `mask` (k,) is false."""
        return Sparse(torch.where(mask, self.values, 0.0), self.indices)

    def indices_in(self, other: Sparse) -> torch.Tensor:
        """Which of the indices are among the other's: (k,) bool."""
        if self.indices.device.type == "cpu":
            return torch.from_numpy(is_among(self.indices.numpy(), other.indices.numpy(), EMPTY))
        known = torch.sort(other.indices).values
        place = torch.searchsorted(known, self.indices).clamp_(max=known.numel() - 1)
        return known[place] == self.indices

    def flagged(self, rank: int, starts: torch.Tensor) -> Sparse:
        """Itself, or if a value is NaN or infinite, zeros with a flag as index: -(1 + rank x parameters + parameter).

        starts: (parameters,) int32, the first index of each parameter. In `merge_topk` the flag outweighs every value,
        so it reaches every rank, with any codec.
        """
        if self.values.is_meta:
            return self
        bad = ~torch.isfinite(self.values)
        broken, first = bad.any(), self.indices[bad.to(torch.uint8).argmax()]
        parameter = torch.searchsorted(starts, first, right=True) - 1
        flag = (-(1 + rank * starts.numel() + parameter)).to(torch.int32)
        values = torch.where(broken, 0.0, self.values)
        return Sparse(values, torch.cat([torch.where(broken, flag, self.indices[:1]), self.indices[1:]]))

    def state(self) -> torch.Tensor:
        """The input of `check`, (2,) int32 on the device: the lowest index, and whether all values are finite."""
        return torch.stack([self.indices.min(), torch.isfinite(self.values).all().to(torch.int32)])

    @staticmethod
    def check(state: torch.Tensor, names: list[str], when: str) -> None:
        """Diverged for a flag, or for a sum of finite gradients that has overflowed.

        state: of a sparse vector, on the host; names: of the parameters, as in `flagged`; when: for the error.
        """
        lowest, finite = state.tolist()
        if lowest < 0:
            rank, parameter = divmod(-lowest - 1, len(names))
            what = f"NaN or infinity in the gradient of {names[parameter]} on rank {rank}"
        elif not finite:
            what = "the sum of all ranks' gradients is beyond float32"
        else:
            return
        raise Diverged(f"diverged: {what} {when}")


def largest_mask(magnitudes: torch.Tensor, k: int) -> torch.Tensor:
    """The k largest of the magnitudes (n,), which contain no NaN, as a mask (n,); ties by position.

    Definition 1 and Algorithm 1 print "> the k-th largest", which keeps k - 1: docs/errata.md, GK-1.
    """
    if magnitudes.device.type == "cpu":
        return torch.from_numpy(largest_mask_on_host(magnitudes.numpy(), k))
    threshold = magnitudes.topk(k).values[-1]  # `kthvalue` has no deterministic algorithm on GPUs
    above, equal = magnitudes > threshold, magnitudes == threshold
    return above | (equal & (equal.cumsum(0) <= k - above.sum()))


def mask_positions(mask: torch.Tensor, count: int) -> torch.Tensor:
    """The indices of the `count` true elements of a mask (n,), ascending."""
    if mask.device.type == "cpu":
        return mask.nonzero().view(-1)
    wanted = torch.arange(1, count + 1, device=mask.device)
    return torch.searchsorted(mask.cumsum(0), wanted)


def merge_topk(a: Sparse, b: Sparse, k: int | None = None) -> tuple[Sparse, Callable[[], Sparse]]:
    """Definition 1, a T b: (the k largest magnitudes of a + b, a call that returns the remaining sums).

    k: by default a's. The remaining sums are computed when they are asked for, so that the k largest can be sent first.
    They have the remaining places, which are EMPTY for indices that were in both.
    """
    k, many = k or a.k, a.k + b.k
    if a.values.is_meta:
        first, rest = (Sparse(a.values.new_empty(size), a.indices.new_empty(size)) for size in (k, many - k))
        return first, lambda: rest
    if a.values.device.type == "cpu":
        ours, theirs = ((part.values.numpy(), part.indices.numpy()) for part in (a, b))
        kept, left = merge_topk_on_host(ours, theirs, k, EMPTY)
        return Sparse(*map(torch.from_numpy, kept)), lambda: Sparse(*map(torch.from_numpy, left()))
    return merge_at_once(a, b, k)


def merge_at_once(a: Sparse, b: Sparse, k: int) -> tuple[Sparse, Callable[[], Sparse]]:
    """As `merge_topk`, for a GPU: with static shapes, and without reading values on the host."""
    many = a.k + b.k
    indices, order = torch.cat([a.indices, b.indices]).sort(stable=True)
    values = torch.cat([a.values, b.values])[order]
    second = indices[1:] == indices[:-1]  # of a pair: its value goes to the first
    values[:-1] = torch.where(second, values[:-1] + values[1:], values[:-1])
    values[1:].masked_fill_(second, 0.0)
    magnitudes = values.abs().masked_fill_(indices < 0, torch.inf)
    magnitudes[1:].masked_fill_(second, -1.0)
    indices[1:].masked_fill_(second, EMPTY)
    kept = largest_mask(magnitudes, k)

    def selected(mask: torch.Tensor, count: int) -> Sparse:
        here = mask_positions(mask, count)
        return Sparse(values[here], indices[here])

    return selected(kept, k), lambda: selected(~kept, many - k)


def in_order(parts: list[Sparse]) -> tuple[torch.Tensor, torch.Tensor]:
    """(all parts' indices, ascending; the position of each); equal indices stay in the order of the parts."""
    indices = torch.cat([part.indices for part in parts])
    if indices.device.type != "cpu":
        return indices.sort(stable=True)
    order = torch.from_numpy(stable_order(indices.numpy()))
    return indices[order], order


def sum_all(parts: list[Sparse]) -> Sparse:
    """The sum of sparse vectors, in their order, with as many places as all together; unused ones at the end."""
    if parts[0].values.is_meta:
        return Sparse(torch.cat([part.values for part in parts]), torch.cat([part.indices for part in parts]))
    indices, order = in_order(parts)
    values = torch.cat([part.values for part in parts])[order]
    first = torch.ones_like(indices, dtype=torch.bool)
    first[1:] = indices[1:] != indices[:-1]
    place = first.cumsum(0) - 1
    sums = torch.zeros_like(values).index_add_(0, place, values)
    return Sparse(sums, torch.full_like(indices, EMPTY).scatter_(0, place, indices))


def keep_topk(sparse: Sparse, k: int) -> Sparse:
    """The k elements of largest magnitude."""
    if sparse.values.is_meta:
        return Sparse(sparse.values[:k], sparse.indices[:k])
    magnitudes = sparse.values.abs().masked_fill_(sparse.indices < 0, torch.inf)
    magnitudes.masked_fill_(sparse.indices == EMPTY, -1.0)
    here = mask_positions(largest_mask(magnitudes, k), k)
    return Sparse(sparse.values[here], sparse.indices[here])


class Wire:
    """The wire form of k elements: int32 indices, then the encoded values; 8 k bytes without a codec."""

    def __init__(self, k: int, codec_name: str = "none"):
        self.k, self.codec = k, make_codec(codec_name)
        self.bytes = INDEX_BYTES * k + self.codec.wire_bytes(k)

    @property
    def lossless(self) -> bool:
        return self.codec.lossless

    def empty(self, device: torch.device) -> torch.Tensor:
        return torch.empty(self.bytes, dtype=torch.uint8, device=device)

    def pack(self, sparse: Sparse) -> torch.Tensor:
        """The message (bytes,) uint8."""
        message = self.empty(sparse.values.device)
        if not message.is_meta:
            message[: INDEX_BYTES * self.k].view(torch.int32).copy_(sparse.indices)
            message[INDEX_BYTES * self.k :].copy_(self.codec.encode(sparse.values).view(torch.uint8))
        return message

    def unpack(self, message: torch.Tensor) -> Sparse:
        """The elements of a message; they may share its memory."""
        if message.is_meta:
            return Sparse(torch.empty(self.k, device="meta"), torch.empty(self.k, dtype=torch.int32, device="meta"))
        if message.storage_offset() % INDEX_BYTES:  # a row of an allgather
            message = message.clone()
        indices = message[: INDEX_BYTES * self.k].view(torch.int32)
        encoded = message[INDEX_BYTES * self.k :].view(self.codec.wire_type)
        if self.lossless:
            return Sparse(encoded, indices)
        return Sparse(self.codec.decode(encoded, torch.empty(self.k, device=message.device)), indices)

    def rounding(self, sparse: Sparse, message: torch.Tensor) -> list[Sparse]:
        """The codec's errors in packing `sparse` to `message`: none, or one sparse vector."""
        if self.lossless or message.is_meta:
            return []
        return [Sparse(sparse.values - self.unpack(message).values, sparse.indices)]
