"""Conformance checks of the NCCL fabric's code on torch ranks that use gloo, without GPUs."""

from __future__ import annotations

import torch

from repro.fabric.collectives import dense as collectives
from repro.fabric.real.nccl import NcclFabric
from tests.support.fabric_checks.common import need, neighbours, same_everywhere, swap


class OverGloo(NcclFabric):
    """Its calls of torch work; `repro.testing.nccl` checks their order."""

    library = "gloo"
    device = torch.device("cpu")


def check_nccls_code_over_gloo(fabric):
    need(fabric, "torch.distributed", ranks=3)
    ordered = OverGloo(fabric.timeout_s)
    theirs = torch.zeros(3, dtype=torch.int16)
    swap(ordered, torch.full((3,), ordered.rank, dtype=torch.int16), theirs)
    assert theirs.tolist() == [neighbours(ordered)[0]] * 3 and ordered.bytes_sent == 6
    for name in (name for name in collectives.ALLREDUCE if name != "server"):
        vector = torch.full((11,), float(ordered.rank))
        ordered.allreduce(vector, algorithm=name)
        assert vector.tolist() == [sum(range(ordered.size))] * 11 and same_everywhere(ordered, vector), name
    pair = ordered.subgroup([2, 0])
    word = torch.full((1,), float(ordered.rank))
    if ordered.rank == 2:
        pair.send(word, 1)
    elif ordered.rank == 0:
        pair.recv(word, 0)
        assert word.item() == 2
    assert ordered.watchdog.check() is None and not any(ordered.watchdog.streams.values())
