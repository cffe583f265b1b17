"""Helpers of the fabric conformance suite."""

from __future__ import annotations

import torch

SHORT_S = 0.3
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
SIZES = [1, 2, 3, 5, 16, 1001]  # elements: fewer than ranks, not divisible, more
OTHER = 3  # a channel without a name


class Skip(Exception):
    """The fabric lacks a capability that the check needs, or has too few ranks."""


def need(fabric, *capabilities, ranks=2):
    if missing := set(capabilities) - fabric.capabilities:
        raise Skip(f"{fabric.name} does not declare {', '.join(sorted(missing))}")
    if fabric.size < ranks:
        raise Skip(f"needs {ranks} ranks")


def neighbours(fabric):
    return (fabric.rank - 1) % fabric.size, (fabric.rank + 1) % fabric.size


def swap(fabric, outgoing, incoming, channel=0):
    """Send to the right neighbour, receive from the left one; returns the finished receive."""
    left, right = neighbours(fabric)
    receive, send = fabric.sendrecv(outgoing, right, incoming, left, 0, channel)
    receive.wait()
    send.wait()
    return receive


def numbers(n, seed, dtype=torch.float32):
    """n small whole numbers that add up exactly in any order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 9, (n,), generator=generator).to(dtype)


def noise(n, seed):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8).tolist()


def same_everywhere(fabric, tensor):
    mine = bits(tensor)
    return all(theirs == mine for theirs in fabric.exchange(mine))


def meet(fabric):
    fabric.exchange(None)
