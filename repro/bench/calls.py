"""The collectives that can be timed, each with data whose result is known: fill, call, check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repro.errors import FaultError
from repro.fabric import collectives
from repro.fabric.base import Fabric
from repro.fabric.compressed import CompressedAllreduce

ALLREDUCES = (*collectives.ALLREDUCE, "native")
NAMES = (*ALLREDUCES, "allgather", "reduce_scatter", "broadcast", "reduce")


def pattern(rank: int, elements: int, device: str = "cpu") -> torch.Tensor:
    """What rank `rank` brings: small whole numbers, so that sums in any order are exact in float32."""
    return torch.arange(elements, device=device).remainder_(5).float().add_(rank + 1)


def call(name: str, fabric: Fabric, elements: int, codec: str) -> Callable[[torch.Tensor], Any]:
    """One collective as vector (elements,) -> its result on this rank; all is set up that a training run sets up once."""
    if name == "ring" and codec != "none":
        allreduce = CompressedAllreduce(fabric, elements, codec, "ring")
        return lambda x: allreduce.decompress(allreduce.reduce(allreduce.compress(x)), x)

    def in_place(function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(x: torch.Tensor) -> torch.Tensor:
            function(x)
            return x

        return run

    if name == "native":
        return in_place(lambda x: fabric.allreduce(x).wait())
    if name in collectives.ALLREDUCE:
        return in_place(lambda x: collectives.ALLREDUCE[name](fabric, x, 0))
    if name == "broadcast":
        return in_place(lambda x: collectives.binomial_broadcast(fabric, x))
    if name == "reduce":
        return in_place(lambda x: collectives.binomial_reduce(fabric, x))
    function = {"allgather": collectives.ring_allgather, "reduce_scatter": collectives.ring_reduce_scatter}[name]
    return lambda x: function(fabric, x)


def check(name: str, fabric: Fabric, elements: int, codec: str, result: Any) -> None:
    """FaultError where `result` on this rank is not what the ranks' patterns give."""
    p, me = fabric.size, fabric.rank
    if name == "reduce" and me != 0:
        return
    if name == "allgather":
        right = all(torch.equal(part, pattern(rank, elements)) for rank, part in enumerate(result))
    elif name == "broadcast":
        right = torch.equal(result, pattern(0, elements))
    else:
        summed = p - 1 if name == "server" else p  # a server brings nothing
        expected = pattern(0, elements).sub_(1).mul_(summed).add_(summed * (summed + 1) / 2)
        if name == "reduce_scatter":
            expected = collectives.chunks(expected, p)[me]
        # a lossy codec rounds by at most a hundredth of the largest value, once a hop
        allowed = 0.0 if codec == "none" or not elements else float(expected.max()) * (p + 1) / 100
        right = not result.numel() or float((result - expected).abs().max()) <= allowed
    if not right:
        raise FaultError(f"rank {me}: {name} over {p} ranks (codec {codec}, {4 * elements} bytes) gave a wrong result")
