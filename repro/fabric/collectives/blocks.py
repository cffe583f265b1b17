"""What the collectives share: how a vector is cut, the tags they use, what a hop costs in virtual time."""

from __future__ import annotations

import torch

from repro.fabric.base import Fabric
from repro.fabric.codecs import Codec

# Tags of their own, so that messages which nobody has received yet never meet a collective. MPI promises 32767 of them.
TAG = 1 << 14


def bounds(n: int, parts: int) -> list[tuple[int, int]]:
    """`parts` consecutive ranges that cover n elements and differ by at most one in length."""
    return [(i * n // parts, (i + 1) * n // parts) for i in range(parts)]


def chunks(vector: torch.Tensor, parts: int) -> list[torch.Tensor]:
    """Views of a vector (n,) cut at `bounds`; without contents (on the meta device) those of a length are the same."""
    cuts = bounds(vector.numel(), parts)
    if vector.is_meta:
        of_length = {n: vector[:n] for n in {end - start for start, end in cuts}}
        return [of_length[end - start] for start, end in cuts]
    return [vector[start:end] for start, end in cuts]


def piece_bounds(n: int, parts: int, pieces: int) -> list[tuple[int, int]]:
    """`bounds`, each of the blocks cut again into `pieces` consecutive pieces (fewer where no block is that long).

    Every block has the same number of pieces; those of blocks that are an element short may be empty.
    """
    blocks = bounds(n, parts)
    pieces = max(1, min(pieces, max(end - start for start, end in blocks)))
    return [(start + low, start + high) for start, end in blocks for low, high in bounds(end - start, pieces)]


def synchronise(fabric: Fabric) -> None:
    """S of equation (5), where it is known."""
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
