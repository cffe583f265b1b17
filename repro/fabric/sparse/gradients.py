"""Sparse gradients: k values with their indices, the wire form, and the paper's top-k operation (gTop-k, Definition 1).

All shapes are static and nothing is read on the host, but for what `Sparse.check` is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from repro.core.errors import Diverged
from repro.fabric.codecs import codec
from repro.fabric.sparse import host as sparse_host

EMPTY = 2**31 - 1  # the index of a place that holds nothing; its value is 0
INDEX_BYTES = 4
CODECS = ("none", "truncate16", "quantize8")  # of the values in a message: those that draw no random numbers


@dataclass(frozen=True)
class Sparse:
    """k elements of a vector: values (k,) float32, indices (k,) int32.

    Indices are ascending and differ, but for EMPTY ones. A negative index is a flag: some rank's gradient was not
    finite (`flagged`).
    """

    values: torch.Tensor
    indices: torch.Tensor

    @property
    def k(self) -> int:
        return self.indices.numel()

    def mass(self) -> torch.Tensor:
        """The sum of all magnitudes, a float64 scalar on the device."""
        return self.values.abs().sum(dtype=torch.float64)

    def add_to(self, vector: torch.Tensor) -> None:
        """Add each value to its place in `vector` (n,). EMPTY places and flags add 0 to the last and first element."""
        if not vector.is_meta:
            vector.index_add_(0, self.indices.clamp(0, vector.numel() - 1), self.values)

    def clear(self, vector: torch.Tensor) -> None:
        """Set these places of `vector` (n,) to 0; EMPTY places none."""
        places = self.indices.clamp(max=vector.numel() - 1)
        # not by assignment: the last element may stand there for EMPTY places too
        vector.index_add_(0, places, torch.where(self.indices == places, -vector[places], 0.0))

    def where(self, mask: torch.Tensor) -> Sparse:
        """The same with value 0 where `mask` (k,) is false."""
        return Sparse(torch.where(mask, self.values, 0.0), self.indices)

    def indices_in(self, other: Sparse) -> torch.Tensor:
        """Which of these indices are among the other's: (k,) bool."""
        if self.indices.device.type == "cpu":
            return torch.from_numpy(sparse_host.among(self.indices.numpy(), other.indices.numpy(), EMPTY))
        known = torch.sort(other.indices).values
        place = torch.searchsorted(known, self.indices).clamp_(max=known.numel() - 1)
        return known[place] == self.indices

    def flagged(self, rank: int, starts: torch.Tensor) -> Sparse:
        """This, or where a value is NaN or infinite a flag instead: index -(1 + rank x parameters + parameter).

        starts: (parameters,) int32, the first index of each. The flag outweighs every value in `merge`, so that it
        travels with the message, whatever the codec, and ends on every rank.
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
        """(2,) int32, on the device: the lowest index, and whether all values are finite. For `check`."""
        return torch.stack([self.indices.min(), torch.isfinite(self.values).all().to(torch.int32)])

    @staticmethod
    def check(state: torch.Tensor, names: list[str], when: str) -> None:
        """Diverged where a flag has come in, or a sum of finite gradients has overflowed.

        state: of a sparse vector, on the host; names: of the parameters that `flagged` counted; when: what to say of
        the moment.
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


def largest(magnitudes: torch.Tensor, k: int) -> torch.Tensor:
    """Which k of the magnitudes (n,), without NaN, are the largest: (n,) bool, ties by position.

    Definition 1 and Algorithm 1 print "> the k-th largest", which keeps k - 1: docs/errata.md.
    """
    if magnitudes.device.type == "cpu":
        return torch.from_numpy(sparse_host.largest(magnitudes.numpy(), k))
    threshold = magnitudes.topk(k).values[-1]  # `kthvalue` has no deterministic algorithm on GPUs
    above, equal = magnitudes > threshold, magnitudes == threshold
    return above | (equal & (equal.cumsum(0) <= k - above.sum()))


def positions(mask: torch.Tensor, count: int) -> torch.Tensor:
    """Where a mask (n,) with `count` true elements is true, ascending."""
    if mask.device.type == "cpu":
        return mask.nonzero().view(-1)
    wanted = torch.arange(1, count + 1, device=mask.device)
    return torch.searchsorted(mask.cumsum(0), wanted)


def merge(a: Sparse, b: Sparse, k: int | None = None) -> tuple[Sparse, Sparse]:
    """Definition 1, a T b: (the k largest in magnitude of a + b, the sums that are not among them).

    k: by default a's. The second has as many places as are left over; where an index was in both it has EMPTY ones.
    """
    k, many = k or a.k, a.k + b.k
    if a.values.is_meta:
        first, rest = (Sparse(a.values.new_empty(size), a.indices.new_empty(size)) for size in (k, many - k))
        return first, rest
    if a.values.device.type == "cpu":
        ours, theirs = ((part.values.numpy(), part.indices.numpy()) for part in (a, b))
        kept, left = sparse_host.merge(ours, theirs, k, EMPTY)
        return Sparse(*map(torch.from_numpy, kept)), Sparse(*map(torch.from_numpy, left))
    return merge_at_once(a, b, k)


def merge_at_once(a: Sparse, b: Sparse, k: int) -> tuple[Sparse, Sparse]:
    """As `merge`, with static shapes and nothing read on the host: for a GPU."""
    many = a.k + b.k
    indices, order = torch.cat([a.indices, b.indices]).sort(stable=True)
    values = torch.cat([a.values, b.values])[order]
    second = indices[1:] == indices[:-1]  # of a pair: its value goes to the first
    values[:-1] = torch.where(second, values[:-1] + values[1:], values[:-1])
    values[1:].masked_fill_(second, 0.0)
    magnitudes = values.abs().masked_fill_(indices < 0, torch.inf)
    magnitudes[1:].masked_fill_(second, -1.0)
    indices[1:].masked_fill_(second, EMPTY)
    kept = largest(magnitudes, k)
    here, there = positions(kept, k), positions(~kept, many - k)
    return Sparse(values[here], indices[here]), Sparse(values[there], indices[there])


def in_order(parts: list[Sparse]) -> tuple[torch.Tensor, torch.Tensor]:
    """(the indices of all parts, ascending, which element each is): of equal ones the first part's comes first."""
    indices = torch.cat([part.indices for part in parts])
    if indices.device.type != "cpu":
        return indices.sort(stable=True)
    order = torch.from_numpy(sparse_host.order(indices.numpy()))
    return indices[order], order


def sum_all(parts: list[Sparse]) -> Sparse:
    """The sum of sparse vectors, in the order given: as many places as all have together, EMPTY ones at the end."""
    if parts[0].values.is_meta:
        return Sparse(torch.cat([part.values for part in parts]), torch.cat([part.indices for part in parts]))
    indices, order = in_order(parts)
    values = torch.cat([part.values for part in parts])[order]
    first = torch.ones_like(indices, dtype=torch.bool)
    first[1:] = indices[1:] != indices[:-1]
    place = first.cumsum(0) - 1
    sums = torch.zeros_like(values).index_add_(0, place, values)
    return Sparse(sums, torch.full_like(indices, EMPTY).scatter_(0, place, indices))


def top(sparse: Sparse, k: int) -> Sparse:
    """The k largest in magnitude."""
    if sparse.values.is_meta:
        return Sparse(sparse.values[:k], sparse.indices[:k])
    magnitudes = sparse.values.abs().masked_fill_(sparse.indices < 0, torch.inf)
    magnitudes.masked_fill_(sparse.indices == EMPTY, -1.0)
    here = positions(largest(magnitudes, k), k)
    return Sparse(sparse.values[here], sparse.indices[here])


class Wire:
    """The message of k elements: int32 indices, then the values in a codec's form; 8 k bytes without a codec."""

    def __init__(self, k: int, codec_name: str = "none"):
        self.k, self.codec = k, codec(codec_name)
        self.bytes = INDEX_BYTES * k + self.codec.wire_bytes(k)
        self.value_type = self.codec.encode(torch.zeros(1)).dtype

    @property
    def lossless(self) -> bool:
        return self.codec.lossless

    def empty(self, device: torch.device) -> torch.Tensor:
        return torch.empty(self.bytes, dtype=torch.uint8, device=device)

    def pack(self, sparse: Sparse) -> torch.Tensor:
        """(bytes,) uint8."""
        message = self.empty(sparse.values.device)
        if not message.is_meta:
            message[: INDEX_BYTES * self.k].view(torch.int32).copy_(sparse.indices)
            message[INDEX_BYTES * self.k :].copy_(self.codec.encode(sparse.values).view(torch.uint8))
        return message

    def unpack(self, message: torch.Tensor) -> Sparse:
        """The elements of a message, whose memory they may share."""
        if message.is_meta:
            return Sparse(torch.empty(self.k, device="meta"), torch.empty(self.k, dtype=torch.int32, device="meta"))
        if message.storage_offset() % INDEX_BYTES:  # a row of an allgather
            message = message.clone()
        indices = message[: INDEX_BYTES * self.k].view(torch.int32)
        encoded = message[INDEX_BYTES * self.k :].view(self.value_type)
        if self.lossless:
            return Sparse(encoded, indices)
        return Sparse(self.codec.decode(encoded, torch.empty(self.k, device=message.device)), indices)

    def rounding(self, sparse: Sparse, message: torch.Tensor) -> list[Sparse]:
        """What the codec took off the values in packing `sparse` to `message`: nothing, or one sparse vector."""
        if self.lossless or message.is_meta:
            return []
        return [Sparse(sparse.values - self.unpack(message).values, sparse.indices)]
