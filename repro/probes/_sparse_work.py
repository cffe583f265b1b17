"""What sparse gradients cost a rank besides the wire: selecting with what goes with it, and merging two messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repro.fabric.selection import select
from repro.fabric.sparse import Wire, merge


def selection_work(elements: int, k: int, how: str, seed: int) -> Callable[[], Any]:
    """A step's work on vectors (elements,): gradient into the residual, selection, update from what comes back.

    On a CPU. Gradients are normal, another draw a rank (`seed`), so that the residual looks as it does in training.
    """
    gradient = torch.randn(elements, generator=torch.Generator().manual_seed(seed))
    residual, update = torch.zeros(elements), torch.empty(elements)

    def work() -> None:
        residual.add_(gradient)
        mine = select(residual, k, how)
        mine.clear(residual)
        update.zero_()
        mine.add_to(update)

    return work


def merge_work(elements: int, k: int, seed: int) -> tuple[int, Callable[[], Any]]:
    """(bytes of the two messages, unpacking one and merging it with another)."""
    wire, draw = Wire(k), torch.Generator().manual_seed(seed)
    mine, other = (select(torch.randn(elements, generator=draw), k) for _ in range(2))
    message = wire.pack(other)
    return 2 * wire.bytes, lambda: merge(mine, wire.unpack(message), k)
