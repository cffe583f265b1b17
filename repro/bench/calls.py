"""The collectives that can be timed, each with data whose result is known: fill, call, check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repro.bench import sparse_calls
from repro.bench.sparse_calls import Sparsity
from repro.core.errors import FaultError
from repro.fabric.base import Fabric
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.compressed import RINGS, CompressedAllreduce

ALLREDUCES = (*collectives.ALLREDUCE, "native", "auto")
NAMES = (*ALLREDUCES, "allgather", "reduce_scatter", "broadcast", "reduce", *sparse_calls.NAMES)


def pattern(rank: int, elements: int) -> torch.Tensor:
    """What rank `rank` brings: small whole numbers, so that sums in any order are exact in float32."""
    return torch.arange(5).float().add_(rank + 1).repeat(-(-elements // 5))[:elements].contiguous()


def call(
    name: str,
    fabric: Fabric,
    elements: int,
    codec: str,
    pieces: int = collectives.PIECES,
    sparsity: Sparsity = sparse_calls.USUAL,
) -> Callable[[torch.Tensor], Any]:
    """One collective as vector (elements,) -> its result on this rank; what a training run sets up once is done.

    pieces: of a block, in "ring_pipelined". sparsity: of "topk" and "gtopk".
    """
    if name in sparse_calls.SPARSE:
        return sparse_calls.call(name, fabric, elements, codec, sparsity)
    if name in RINGS and (codec != "none" or pieces != collectives.PIECES):
        allreduce = CompressedAllreduce(fabric, elements, codec, name, pieces=pieces)
        return lambda x: allreduce.decompress(allreduce.reduce(allreduce.compress(x)), x)

    def in_place(function: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(x: torch.Tensor) -> torch.Tensor:
            function(x)
            return x

        return run

    if name == "dense":  # as the paper of gTop-k calls it
        name = "ring"
    if name == "auto":
        fabric.settle_auto()
        return in_place(lambda x: fabric.allreduce(x, algorithm="auto"))
    if name == "native":
        return in_place(lambda x: fabric.allreduce(x, algorithm="native").wait())
    if name in collectives.ALLREDUCE:
        return in_place(lambda x: collectives.ALLREDUCE[name](fabric, x, 0))
    if name == "broadcast":
        return in_place(lambda x: collectives.binomial_broadcast(fabric, x))
    if name == "reduce":
        return in_place(lambda x: collectives.binomial_reduce(fabric, x))
    function = {"allgather": collectives.ring_allgather, "reduce_scatter": collectives.ring_reduce_scatter}[name]
    return lambda x: function(fabric, x)


def checker(
    name: str, fabric: Fabric, elements: int, codec: str, sparsity: Sparsity = sparse_calls.USUAL
) -> Callable[[Any], None]:
    """A function of this rank's result that raises FaultError where it is not what the ranks' patterns give."""
    p, me = fabric.size, fabric.rank
    allowed = 0.0
    if name == "allgather":
        expected = torch.stack([pattern(rank, elements) for rank in range(p)])
    elif name == "broadcast":
        expected = pattern(0, elements)
    elif name in sparse_calls.SPARSE:
        expected = sparse_calls.expected(elements, sparsity, [pattern(rank, elements) for rank in range(p)])
        if codec != "none":
            allowed = float(expected.max()) * (p + 1) / 100
    else:
        summed = p - 1 if name == "server" else p  # a server brings nothing
        expected = pattern(0, elements).sub_(1).mul_(summed).add_(summed * (summed + 1) / 2)
        if name == "reduce_scatter":
            expected = collectives.chunks(expected, p)[me]
        if codec == "ternary":  # random: an element may come out as 0, or as the sum of all ranks' largest values
            allowed = float(sum(pattern(rank, 5).max() for rank in range(p)))
        elif codec != "none":  # the others round by at most a hundredth of the largest value, once a hop
            allowed = float(expected.max()) * (p + 1) / 100

    def check(result: Any) -> None:
        if name == "reduce" and me != 0:
            return  # scratch
        found = torch.stack(result) if name == "allgather" else result
        if name in sparse_calls.SPARSE:
            found = sparse_calls.as_vector(elements, result)
        found = found.cpu()
        right = torch.equal(found, expected) if not allowed else float((found - expected).abs().max()) <= allowed
        if not right:
            of = f"over {p} ranks (codec {codec}, {4 * elements} bytes)"
            raise FaultError(f"rank {me}: {name} {of} gave a wrong result")

    return check
