"""Helpers of the collectives: cutting a vector, their tags, the cost of a hop in virtual time."""

from __future__ import annotations

import torch

from repro.fabric.base import Fabric
from repro.fabric.codecs import Codec

# The collectives' own tags, so that they never match a pending message. MPI guarantees 32,767 tags.
TAG = 1 << 14


def chunk_bounds(n: int, parts: int) -> list[tuple[int, int]]:
    """`parts` consecutive ranges of n elements whose lengths differ by at most one."""
    return [(i * n // parts, (i + 1) * n // parts) for i in range(parts)]


def cut_vector(vector: torch.Tensor, parts: int) -> list[torch.Tensor]:
    """Views of a vector (n,) cut at `chunk_bounds`; on the meta device, views of equal length are one object."""
    cuts = chunk_bounds(vector.numel(), parts)
    if vector.is_meta:
        of_length = {n: vector[:n] for n in {end - start for start, end in cuts}}
        return [of_length[end - start] for start, end in cuts]
    return [vector[start:end] for start, end in cuts]


def piece_bounds(n: int, parts: int, pieces: int) -> list[tuple[int, int]]:
    """The ranges of `chunk_bounds`, each cut into `pieces` consecutive pieces, or fewer if no range is that long.

    Every range has the same number of pieces, of which some may be empty.
    """
    blocks = chunk_bounds(n, parts)
    pieces = max(1, min(pieces, max(end - start for start, end in blocks)))
    return [(start + low, start + high) for start, end in blocks for low, high in chunk_bounds(end - start, pieces)]


def spend_sync(fabric: Fabric) -> None:
    """Spend S of Pipe-SGD's equation (5); no effect in real time."""
    if sync := fabric.costs.seconds("sync"):
        with fabric.compute(sync, resource=None):
            pass


def reduce_cost(fabric: Fabric, n: int, codec: Codec) -> float | None:
    """Seconds to decompress two blocks of n float32, sum them and compress the sum."""
    costs = fabric.costs
    if not costs.known:
        return None
    seconds = costs.modelled("reduce", 4 * n)
    if not codec.lossless:
        seconds += 2 * costs.modelled(f"decode/{codec.name}", 4 * n) + costs.modelled(f"encode/{codec.name}", 4 * n)
    return seconds
