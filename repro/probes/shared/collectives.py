"""The collectives that the probe `collective` times: their calls, checks of their results, and their closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from repro.algorithms.timing import collective_forms, sparse_forms
from repro.core.errors import FaultError
from repro.fabric.base import Fabric
from repro.fabric.codecs import make_codec as find_codec
from repro.fabric.collectives import DEFAULT_PIECES, dense
from repro.fabric.collectives.compressed import RINGS, CompressedAllreduce
from repro.fabric.costs import Costs
from repro.fabric.sparse.collectives import gtopk_allreduce, topk_allgather
from repro.fabric.sparse.gradients import Sparse, Wire
from repro.fabric.sparse.selection import select_topk

# gTop-k's Table I; the timed calls aggregate elements that were selected in the first call
SPARSE = ("topk", "topk_ring", "gtopk")
BLOCKING = "blocking"  # MPI's blocking allreduce, whose algorithm the library chooses; "native" does not block
NAMES = (
    *(*dense.ALLREDUCE, "native", "auto", BLOCKING, "allgather", "reduce_scatter", "broadcast", "reduce"),
    *("dense", *SPARSE),
)


class Call(NamedTuple):
    """A collective on float32 vectors. pieces: a block's, for ring_pipelined; density: for sparse collectives."""

    name: str
    elements: int
    codec: str = "none"
    pieces: int = DEFAULT_PIECES
    density: float = 1.0

    @property
    def k(self) -> int:
        """Elements that each rank selects; at least one, so that results can be checked on short vectors."""
        return max(1, round(self.density * self.elements))


def rank_pattern(rank: int, elements: int) -> torch.Tensor:
    """A rank's input: small whole numbers, so that sums in any order are exact in float32."""
    return torch.arange(5).float().add_(rank + 1).repeat(-(-elements // 5))[:elements].contiguous()


def bind_collective(fabric: Fabric, call: Call) -> Callable[[torch.Tensor], Any]:
    """The collective as a function: vector (elements,) -> this rank's result; one-time setup is done here."""
    name = "ring" if call.name == "dense" else call.name
    if name in SPARSE:
        return _sparse(fabric, call)
    if name in RINGS and (call.codec != "none" or call.pieces != DEFAULT_PIECES):
        allreduce = CompressedAllreduce(fabric, call.elements, call.codec, name, pieces=call.pieces)
        return lambda x: allreduce.decompress(allreduce.reduce(allreduce.compress(x)), x)
    if name == "auto":
        fabric.settle_auto()
    if name == "allgather":
        return lambda x: dense.ring_allgather(fabric, x)
    if name == "reduce_scatter":
        return lambda x: dense.ring_reduce_scatter(fabric, x)
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
            selected.append(select_topk(x, wire.k))
        [mine] = selected
        if call.name == "gtopk":
            return [gtopk_allreduce(fabric, mine, wire).kept]
        algorithm = "ring" if call.name == "topk_ring" else "doubling"
        return topk_allgather(fabric, wire.pack(mine), wire, algorithm=algorithm)

    return aggregate


def make_checker(fabric: Fabric, call: Call) -> Callable[[Any], None]:
    """A check of this rank's result: FaultError if it does not follow from the ranks' patterns."""
    name, elements, p, me = call.name, call.elements, fabric.size, fabric.rank
    if name == "allgather":
        expected = torch.stack([rank_pattern(rank, elements) for rank in range(p)])
    elif name == "broadcast":
        expected = rank_pattern(0, elements)
    elif name in SPARSE:  # all ranks select the same indices, so that gtopk's result is a sum too
        expected = _as_vector(elements, [select_topk(rank_pattern(rank, elements), call.k) for rank in range(p)])
    else:
        summed = p - 1 if name == "server" else p  # a server has no input
        expected = rank_pattern(0, elements).sub_(1).mul_(summed).add_(summed * (summed + 1) / 2)
        if name == "reduce_scatter":
            expected = dense.cut_vector(expected, p)[me]
    allowed = 0.0
    if call.codec == "ternary":  # random: an element may become 0, or the sum of all ranks' largest values
        allowed = float(sum(rank_pattern(rank, 5).max() for rank in range(p)))
    elif call.codec != "none":  # rounds by at most a hundredth of the largest value, once a hop
        allowed = float(expected.max()) * (p + 1) / 100

    def check(result: Any) -> None:
        if name == "reduce" and me != 0:
            return  # its buffer holds partial sums
        if name == "allgather":
            result = torch.stack(result)
        elif name in SPARSE:
            result = _as_vector(elements, result)
        actual = result.cpu()
        if not (float((actual - expected).abs().max()) <= allowed if allowed else torch.equal(actual, expected)):
            where = f"over {p} ranks (codec {call.codec}, {4 * elements} bytes)"
            raise FaultError(f"rank {me}: {name} {where} gave a wrong result")

    return check


def _as_vector(elements: int, parts: list[Sparse]) -> torch.Tensor:
    total = torch.zeros(elements)
    for part in parts:
        part.add_to(total)
    return total


def closed_form(
    call: Call, ranks: int, alpha: float, beta: float, costs: Costs, fabric: str
) -> tuple[float, str | None]:
    """(seconds, a note on how far the form applies or None); costs: of sums and codecs; ranks: with the server."""
    name, n, gamma = call.name, 4 * call.elements, costs.modelled("reduce", 1.0)
    if name in ("dense", *SPARSE):
        element = Wire(call.k, call.codec).bytes / call.k
        note = f"k = {call.k} elements of {element:g} bytes" if name in SPARSE else None
        return sparse_forms.sparse_collective(name, ranks, n, call.k, alpha, beta, gamma, element=element), note
    if name in RINGS:
        codec = find_codec(call.codec)
        if name == "ring_pipelined":
            seconds = collective_forms.ring_pipelined_encoded(ranks, n, alpha, beta, costs, codec, call.pieces)
        else:
            turns = 2 if name == "ring_half_duplex" else 1
            seconds = collective_forms.ring_encoded(ranks, n, turns * alpha, turns * beta, costs, codec)
        exact = name != "ring_half_duplex" or not (ranks % 2 or call.elements % ranks)
        note = (
            None if exact else "ranks that are odd or do not divide the elements: the closed form is a bound from above"
        )
        return seconds + sum(collective_forms.codec_device(n, costs, codec)), note
    known = "native" if name == BLOCKING else name
    seconds = collective_forms.collective_seconds(known, ranks, n, alpha, beta, gamma)
    if name in ("native", "auto", BLOCKING) and fabric != "virtual":
        return seconds, f"the closed form is that of a ring; what {fabric} does natively depends on size and version"
    if name == "recursive_doubling" and ranks & (ranks - 1) and not alpha and not gamma:
        return seconds, "without alpha and gamma messages come in at the same moment: the closed form is a lower bound"
    if name == "sharded_server" and n < 4 * ranks:
        return seconds, "fewer elements than ranks: the closed form is a bound from above"
    return seconds, None
