"""A gradient cut into buckets that are communicated one by one, while the backward pass goes on.

Buckets of whole blocks (Pipe-SGD 3.1, Fig. 2 (b), whose segments they are) are balanced by bytes, not by number of
blocks: what a bucket costs on the network is its bytes, and the first to be sent should neither be most of the gradient
(nothing would be hidden) nor a sliver (a latency for nothing).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import nn

from repro.core.not_none import not_none


def trained_parameters(block: nn.Module) -> list[nn.Parameter]:
    """The block's parameters that the optimizer moves, in registration order."""
    return [parameter for parameter in block.parameters() if parameter.requires_grad]


def block_sizes(blocks: Sequence[nn.Module]) -> list[int]:
    """Elements of each block's gradient; 0 for a block without parameters to train."""
    return [sum(p.numel() for p in trained_parameters(block)) for block in blocks]


def cut(sizes: Sequence[int], buckets: int) -> list[range]:
    """Block ranges of the buckets, in block order: of all cuts that with the least sum of squared sizes, the earliest.

    `sizes` as of `block_sizes`, at least `buckets` of them above 0. A block without any belongs to the bucket of the
    block before it, at the front to the first.
    """
    trained = [block for block, size in enumerate(sizes) if size]
    ends = list(accumulate((sizes[block] for block in trained), initial=0))
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}  # trained blocks so far -> (squares, buckets' firsts)
    for _ in range(buckets):
        best = {
            end: min(
                (squares + (ends[end] - ends[start]) ** 2, (*firsts, start))
                for start, (squares, firsts) in best.items()
                if start < end
            )
            for end in range(min(best) + 1, len(trained) + 1)
        }
    firsts = [trained[first] for first in best[len(trained)][1]]
    return [range(start, end) for start, end in zip([0, *firsts[1:]], [*firsts[1:], len(sizes)])]


@dataclass(frozen=True)
class Bucket:
    """A run of parameters and where their gradient stands in the vector of all (n,)."""

    blocks: range  # that they belong to; of the outer ones a bucket of `ddp_buckets` may have a part
    trained: frozenset[int]  # those of the blocks that have parameters to train: when they are ready, it is
    start: int
    end: int
    parameters: tuple[nn.Parameter, ...]

    def gradient(self, out: torch.Tensor) -> None:
        """The bucket's gradients of the last backward pass, into their place in `out` (n,)."""
        torch.cat([not_none(parameter.grad).view(-1) for parameter in self.parameters], out=out[self.start : self.end])


def balanced_buckets(blocks: Sequence[nn.Module], count: int) -> list[Bucket]:
    """`count` buckets of a model's gradient, of whole blocks and in block order."""
    sizes = block_sizes(blocks)
    offsets = list(accumulate(sizes, initial=0))
    return [
        Bucket(
            run,
            frozenset(block for block in run if sizes[block]),
            offsets[run.start],
            offsets[run.stop],
            tuple(p for block in run for p in trained_parameters(blocks[block])),
        )
        for run in cut(sizes, count)
    ]


def block_buckets(blocks: Sequence[nn.Module]) -> list[Bucket]:
    """A bucket for each block that has parameters to train, in block order."""
    return balanced_buckets(blocks, sum(size > 0 for size in block_sizes(blocks)))


def ddp_buckets(blocks: Sequence[nn.Module], first_bytes: float, limit_bytes: float) -> list[Bucket]:
    """A model's gradient in buckets, in the order in which a backward pass completes them: the last parameters first.

    The rule of PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed", VLDB 2020, 3.2.3; in the code
    `compute_bucket_assignment_by_size`): parameters go into a bucket in reverse order, and the one with which it comes
    to its limit or beyond closes it. The first has a limit of its own, so that communication starts early.
    """
    placed = [(block, p) for block, module in enumerate(blocks) for p in trained_parameters(module)]
    end = sum(p.numel() for _, p in placed)
    made: list[Bucket] = []
    bucket: list[tuple[int, nn.Parameter]] = []

    def close() -> None:
        nonlocal end
        start, held = end - sum(p.numel() for _, p in bucket), frozenset(block for block, _ in bucket)
        parameters = tuple(p for _, p in reversed(bucket))
        made.append(Bucket(range(min(held), max(held) + 1), held, start, end, parameters))
        bucket.clear()
        end = start

    for block, parameter in reversed(placed):
        bucket.append((block, parameter))
        limit = limit_bytes if made else first_bytes
        if sum(p.numel() * p.element_size() for _, p in bucket) >= limit:
            close()
    if bucket:
        close()
    return made


def in_order(buckets: Sequence[Bucket], complete: Callable[[int], None]) -> Callable[[int], None]:
    """What one backward pass calls with each block that is ready: it calls `complete` with the number of each bucket
    whose blocks are, in the same order on every rank, whatever the order in which the pass comes to its blocks.
    """
    missing = [set(bucket.trained) for bucket in buckets]
    done = 0

    def block_ready(block: int) -> None:
        nonlocal done
        for blocks in missing:
            blocks.discard(block)
        while done < len(missing) and not missing[done]:
            complete(done)
            done += 1

    return block_ready
