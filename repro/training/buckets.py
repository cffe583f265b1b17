"""Cuts a gradient into buckets that are communicated one by one during the backward pass.

Buckets of whole blocks (the segments of Pipe-SGD 3.1, Fig. 2 (b)) are balanced by bytes, which determine the time on
the network, not by number of blocks. The first bucket to be sent should neither be most of the gradient (nothing would
be hidden) nor tiny (its latency would be wasted).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import nn

from repro.core.not_none import not_none


def trained_parameters(block: nn.Module) -> list[nn.Parameter]:
    """The block's parameters that train, in registration order."""
    return [parameter for parameter in block.parameters() if parameter.requires_grad]


def block_sizes(blocks: Sequence[nn.Module]) -> list[int]:
    """The number of elements of each block's gradient; 0 for a block without trained parameters."""
    return [sum(p.numel() for p in trained_parameters(block)) for block in blocks]


def cut_buckets(sizes: Sequence[int], buckets: int) -> list[range]:
    """The block range of each bucket, in block order, with the least sum of squared sizes; the earliest cut of equals.

    sizes: as `block_sizes` returns them, at least `buckets` of them above 0. A block of size 0 belongs to the bucket of
    the previous block, at the front to the first bucket.
    """
    trained = [block for block, size in enumerate(sizes) if size]
    ends = list(accumulate((sizes[block] for block in trained), initial=0))
    # trained blocks so far -> (sum of squares, first block of each bucket)
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
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
    """Consecutive parameters; their gradient is the slice `start`:`end` of the gradient vector (n,)."""

    blocks: range  # of the parameters; a bucket of `ddp_buckets` may contain a part of the first and the last one
    trained: frozenset[int]  # blocks with trained parameters: the bucket is ready when all of them are
    start: int
    end: int
    parameters: tuple[nn.Parameter, ...]

    def gradient(self, out: torch.Tensor) -> None:
        """Write the gradients of the last backward pass into the bucket's slice of `out` (n,)."""
        torch.cat([not_none(parameter.grad).view(-1) for parameter in self.parameters], out=out[self.start : self.end])


def balanced_buckets(blocks: Sequence[nn.Module], count: int) -> list[Bucket]:
    """Cut a model's gradient into `count` buckets of whole blocks, in block order."""
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
        for run in cut_buckets(sizes, count)
    ]


def block_buckets(blocks: Sequence[nn.Module]) -> list[Bucket]:
    """A bucket for each block with trained parameters, in block order."""
    return balanced_buckets(blocks, sum(size > 0 for size in block_sizes(blocks)))


def ddp_buckets(blocks: Sequence[nn.Module], first_bytes: float, limit_bytes: float) -> list[Bucket]:
    """Cut a model's gradient into buckets in the order in which a backward pass completes them (`bucket_runs`)."""
    placed = [(block, p) for block, module in enumerate(blocks) for p in trained_parameters(module)]
    ends = list(accumulate((p.numel() for _, p in placed), initial=0))
    made = []
    for run in bucket_runs([p.numel() * p.element_size() for _, p in placed], first_bytes, limit_bytes):
        held, parameters = zip(*placed[run.start : run.stop])
        cut = ends[run.start], ends[run.stop]
        made.append(Bucket(range(held[0], held[-1] + 1), frozenset(held), *cut, parameters))
    return made


def bucket_runs(nbytes: Sequence[int], first_bytes: float, limit_bytes: float) -> list[range]:
    """The parameters of each bucket; nbytes: of each parameter.

    This is the rule of PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed", VLDB 2020, 3.2.3; in the
    code `compute_bucket_assignment_by_size`): parameters enter a bucket in reverse order, and the one that reaches its
    limit closes it. The first bucket has a smaller limit, so that communication starts early.
    """
    runs: list[range] = []
    end, held = len(nbytes), 0
    for start in reversed(range(len(nbytes))):
        held += nbytes[start]
        if held >= (limit_bytes if runs else first_bytes):
            runs.append(range(start, end))
            end, held = start, 0
    return [*runs, range(end)] if end else runs


def in_order(buckets: Sequence[Bucket], complete: Callable[[int], None]) -> Callable[[int], None]:
    """A `gradient_ready` callback for one backward pass, which calls `complete` with each bucket's number.

    Buckets complete in order, the same on every rank, even if blocks become ready in another order.
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
