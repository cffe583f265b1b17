"""The collectives of Table I of gTop-k for `repro bench collective`: dense (a ring), topk and gtopk, with a density.

What is timed is the aggregation, from selected elements to the result; selecting happens once, in the call that is not
counted (on the virtual fabric it takes no time).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from repro.algorithms.timing import sparse_forms
from repro.core.errors import InputError, unknown
from repro.fabric.base import Fabric
from repro.fabric.sparse.collectives import ALLGATHERS, gtopk_allreduce, topk_allgather
from repro.fabric.sparse.gradients import CODECS, Sparse, Wire
from repro.fabric.sparse.selection import select

NAMES = ("dense", "topk", "gtopk")
SPARSE = ("topk", "gtopk")
DENSITY, ALLGATHER = 0.001, "doubling"


@dataclass(frozen=True)
class Sparsity:
    """density: rho, in (0, 1]; allgather: of topk."""

    density: float = DENSITY
    allgather: str = ALLGATHER

    def k(self, elements: int) -> int:
        """Elements that each rank sends; at least one, so that a short vector can be checked."""
        return max(1, round(self.density * elements))

    def form_name(self, name: str) -> str:
        """The collective's name among the closed forms."""
        return "topk_ring" if (name, self.allgather) == ("topk", "ring") else name


USUAL = Sparsity()


def sparsity(name: str, elements: int, density: float | None, allgather: str | None, codec: str) -> Sparsity:
    """The options as given (None: the default); InputError for what the collective does not have or cannot use."""
    if density is not None and name not in SPARSE:
        raise InputError(f"--density {density}: only the collectives 'topk' and 'gtopk' have one, not '{name}'")
    if allgather is not None and name != "topk":
        raise InputError(f"--allgather {allgather}: only the collective 'topk' has one, not '{name}'")
    if allgather is not None and allgather not in ALLGATHERS:
        raise unknown("--allgather", allgather, ALLGATHERS)
    if name in SPARSE and codec not in CODECS:
        raise unknown(f"codec of '{name}'", codec, CODECS)
    found = Sparsity(DENSITY if density is None else density, allgather or ALLGATHER)
    if not 0 < found.density <= 1:
        raise InputError(f"--density {found.density}: must be above 0 and at most 1")
    if name in SPARSE and round(found.density * elements) < 1:
        raise InputError(
            f"--density {found.density}: selects none of {elements} elements; must be {1 / elements:.3g} or more"
        )
    return found


def call(name: str, fabric: Fabric, elements: int, codec: str, chosen: Sparsity) -> Callable[[torch.Tensor], Any]:
    """One of SPARSE as vector (elements,) -> what all ranks apply, as sparse vectors."""
    wire = Wire(chosen.k(elements), codec)
    selected: list[Sparse] = []

    def aggregate(x: torch.Tensor) -> list[Sparse]:
        if not selected:
            selected.append(select(x, wire.k))
        [mine] = selected
        if name == "gtopk":
            return [gtopk_allreduce(fabric, mine, wire).kept]
        return topk_allgather(fabric, wire.pack(mine), wire, algorithm=chosen.allgather)

    return aggregate


def expected(elements: int, chosen: Sparsity, vectors: list[torch.Tensor]) -> torch.Tensor:
    """The sum of all ranks' selected elements (elements,); for gtopk too, where all select the same indices."""
    total = torch.zeros(elements)
    for vector in vectors:
        select(vector, chosen.k(elements)).add_to(total)
    return total


def as_vector(elements: int, result: list[Sparse]) -> torch.Tensor:
    """A result as a vector (elements,)."""
    total = torch.zeros(elements)
    for part in result:
        part.add_to(total)
    return total


def closed_form(
    name: str, ranks: int, nbytes: int, codec: str, alpha: float, beta: float, gamma: float, chosen: Sparsity
) -> tuple[float, str | None]:
    """(seconds of Table I's formula, a word of caution or None)."""
    k = chosen.k(nbytes // 4)
    element = Wire(k, codec).bytes / k
    form = chosen.form_name(name)
    seconds = sparse_forms.sparse_collective(form, ranks, nbytes, k, alpha, beta, gamma, element=element)
    notes = [f"k = {k} elements of {element:g} bytes"] if name in SPARSE else []
    if codec != "none":
        notes.append(f"compressing is free in the closed form; {codec} shows in its bytes only")
    return seconds, "; ".join(notes) or None
