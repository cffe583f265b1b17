"""The collectives that can be timed, by name, each with data whose result is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from repro.algorithms.timing import collective_forms, sparse_forms
from repro.core.errors import FaultError
from repro.fabric.base import Fabric
from repro.fabric.codecs import codec as find_codec
from repro.fabric.collectives import dense
from repro.fabric.collectives.compressed import RINGS, CompressedAllreduce
from repro.fabric.costs import Costs
from repro.fabric.sparse.collectives import gtopk_allreduce, topk_allgather
from repro.fabric.sparse.gradients import Sparse, Wire
from repro.fabric.sparse.selection import select

# gTop-k's Table I; what is timed is the aggregation of selected elements, for selecting happens in the first call alone
SPARSE = ("topk", "topk_ring", "gtopk")
BLOCKING = "blocking"  # MPI's allreduce that blocks, whose algorithm the library's settings choose; native does not
NAMES = (
    *(*dense.ALLREDUCE, "native", "auto", BLOCKING, "allgather", "reduce_scatter", "broadcast", "reduce"),
    *("dense", *SPARSE),
)


class Call(NamedTuple):
    """One collective on float32 vectors. pieces: of a block in ring_pipelined. density: of the sparse ones."""

    name: str
    elements: int
    codec: str = "none"
    pieces: int = dense.PIECES
    density: float = 1.0

    @property
    def k(self) -> int:
        """Elements that a rank of a sparse one selects; at least one, so that a short vector can be checked."""
        return max(1, round(self.density * self.elements))


def pattern(rank: int, elements: int) -> torch.Tensor:
    """What rank `rank` brings: small whole numbers, so that sums in any order are exact in float32."""
    return torch.arange(5).float().add_(rank + 1).repeat(-(-elements // 5))[:elements].contiguous()


def bind(fabric: Fabric, call: Call) -> Callable[[torch.Tensor], Any]:
    """The collective as vector (elements,) -> its result on this rank; what a training run sets up once is done."""
    name = "ring" if call.name == "dense" else call.name
    if name in SPARSE:
        return _sparse(fabric, call)
    if name in RINGS and (call.codec != "none" or call.pieces != dense.PIECES):
        allreduce = CompressedAllreduce(fabric, call.elements, call.codec, name, pieces=call.pieces)
        return lambda x: allreduce.decompress(allreduce.reduce(allreduce.compress(x)), x)
    if name == "auto":
        fabric.settle_auto()
    whole: dict[str, Callable[[torch.Tensor], Any]] = {
        "allgather": lambda x: dense.ring_allgather(fabric, x),
        "reduce_scatter": lambda x: dense.ring_reduce_scatter(fabric, x),
    }
    if name in whole:
        return whole[name]
    in_place: dict[str, Callable[[torch.Tensor], Any]] = {
        "auto": lambda x: fabric.allreduce(x, algorithm="auto"),
        "native": lambda x: fabric.allreduce(x, algorithm="native").wait(),
        BLOCKING: lambda x: fabric.blocking_allreduce(x),  # type: ignore[attr-defined]
        "broadcast": lambda x: dense.binomial_broadcast(fabric, x),
        "reduce": lambda x: dense.binomial_reduce(fabric, x),
    }
    function = in_place.get(name) or (lambda x: dense.ALLREDUCE[name](fabric, x, 0))

    def run(x: torch.Tensor) -> torch.Tensor:
        function(x)
        return x

    return run


def _sparse(fabric: Fabric, call: Call) -> Callable[[torch.Tensor], list[Sparse]]:
    wire = Wire(call.k, call.codec)
    selected: list[Sparse] = []

    def aggregate(x: torch.Tensor) -> list[Sparse]:
        if not selected:
            selected.append(select(x, wire.k))
        [mine] = selected
        if call.name == "gtopk":
            return [gtopk_allreduce(fabric, mine, wire).kept]
        algorithm = "ring" if call.name == "topk_ring" else "doubling"
        return topk_allgather(fabric, wire.pack(mine), wire, algorithm=algorithm)

    return aggregate


def checker(fabric: Fabric, call: Call) -> Callable[[Any], None]:
    """A function of this rank's result that raises FaultError where it is not what the ranks' patterns give."""
    name, elements, p, me = call.name, call.elements, fabric.size, fabric.rank
    if name == "allgather":
        expected = torch.stack([pattern(rank, elements) for rank in range(p)])
    elif name == "broadcast":
        expected = pattern(0, elements)
    elif name in SPARSE:  # all select the same indices, so that gtopk's is a sum too
        expected = _as_vector(elements, [select(pattern(rank, elements), call.k) for rank in range(p)])
    else:
        summed = p - 1 if name == "server" else p  # a server brings nothing
        expected = pattern(0, elements).sub_(1).mul_(summed).add_(summed * (summed + 1) / 2)
        if name == "reduce_scatter":
            expected = dense.chunks(expected, p)[me]
    allowed = 0.0
    if call.codec == "ternary":  # random: an element may come out as 0, or as the sum of all ranks' largest values
        allowed = float(sum(pattern(rank, 5).max() for rank in range(p)))
    elif call.codec != "none":  # the others round by at most a hundredth of the largest value, once a hop
        allowed = float(expected.max()) * (p + 1) / 100

    def check(result: Any) -> None:
        if name == "reduce" and me != 0:
            return  # scratch
        found = torch.stack(result) if name == "allgather" else result
        if name in SPARSE:
            found = _as_vector(elements, result)
        found = found.cpu()
        right = torch.equal(found, expected) if not allowed else float((found - expected).abs().max()) <= allowed
        if not right:
            of = f"over {p} ranks (codec {call.codec}, {4 * elements} bytes)"
            raise FaultError(f"rank {me}: {name} {of} gave a wrong result")

    return check


def _as_vector(elements: int, parts: list[Sparse]) -> torch.Tensor:
    total = torch.zeros(elements)
    for part in parts:
        part.add_to(total)
    return total


def closed_form(
    call: Call, ranks: int, alpha: float, beta: float, costs: Costs, fabric: str
) -> tuple[float, str | None]:
    """(seconds, a word of caution or None); `costs`: of summing and codecs; `ranks` counts a server."""
    name, n, gamma = call.name, 4 * call.elements, costs.modelled("reduce", 1.0)
    if name in ("dense", *SPARSE):
        element = Wire(call.k, call.codec).bytes / call.k
        note = f"k = {call.k} elements of {element:g} bytes" if name in SPARSE else None
        return sparse_forms.sparse_collective(name, ranks, n, call.k, alpha, beta, gamma, element=element), note
    if name in RINGS:
        codec = find_codec(call.codec)
        if name == "ring":
            seconds = collective_forms.ring_encoded(ranks, n, alpha, beta, costs, codec)
        else:
            seconds = collective_forms.ring_pipelined_encoded(ranks, n, alpha, beta, costs, codec, call.pieces)
        return seconds + sum(collective_forms.codec_device(n, costs, codec)), None
    known = "native" if name == BLOCKING else name
    seconds = collective_forms.collective(known, ranks, n, alpha, beta, gamma)
    if name in ("native", "auto", BLOCKING) and fabric != "virtual":
        return seconds, f"the closed form is that of a ring; what {fabric} does natively depends on size and version"
    if name == "recursive_doubling" and ranks & (ranks - 1) and not alpha and not gamma:
        return seconds, "without alpha and gamma messages come in at the same moment: the closed form is a lower bound"
    if name == "sharded_server" and n < 4 * ranks:
        return seconds, "fewer elements than ranks: the closed form is a bound from above"
    return seconds, None
