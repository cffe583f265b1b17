"""gTop-k's released aggregation beside this project's: equal results? Bytes, and seconds.

    mpirun -n 4 python gtopk_allreduce.py CLONE    (a clone of github.com/hclhkbu/gtopkssgd; a power of two of ranks)

Their function `gtopk_sparse_allreduce` of allreducer.py runs as it is, but for `np.int`, which NumPy has no more, and
the modules that the file imports for other things. docs/controls.md has the results.
"""

from __future__ import annotations

import ast
import logging
import sys
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from mpi4py import MPI

from repro.fabric.real.mpi import MpiFabric
from repro.fabric.sparse.collectives import gtopk_allreduce
from repro.fabric.sparse.gradients import Wire
from repro.fabric.sparse.selection import select_topk

SIZES = {"ResNet-20": 269_722, "VGG-16": 14_728_266, "AlexNet": 61_100_840}
DENSITY = 0.001
TURNS = 5


class Counting:
    """A communicator that counts the bytes that this rank gives to Send, and those of a broadcast."""

    def __init__(self, comm: MPI.Comm):
        self.comm, self.size, self.rank, self.sent, self.barriers = comm, comm.size, comm.rank, 0, 0

    def Send(self, buffer: Any, dest: int) -> None:
        self.sent += buffer[0].nbytes
        self.comm.Send(buffer, dest=dest)

    def Recv(self, buffer: Any, source: int) -> None:
        self.comm.Recv(buffer, source=source)

    def Bcast(self, buffer: Any, root: int) -> None:
        self.sent += buffer.nbytes if self.rank == root else 0
        self.comm.Bcast(buffer, root=root)

    def Barrier(self) -> None:
        self.barriers += 1
        self.comm.Barrier()


def load_theirs(clone: Path) -> Any:
    """Their function, defined from their file."""
    tree = ast.parse((clone / "allreducer.py").read_text())
    (function,) = [node for node in tree.body if getattr(node, "name", "") == "gtopk_sparse_allreduce"]
    utils = ast.parse((clone / "utils.py").read_text())
    (topk,) = [node for node in utils.body if getattr(node, "name", "") == "topk"]
    np.int = int  # type: ignore[attr-defined]
    names: dict[str, Any] = {"np": np, "MPI": MPI, "logger": logging.getLogger("theirs")}
    exec(compile(ast.Module([topk], []), "utils.py", "exec"), names)
    names["utils"] = SimpleNamespace(topk=names["topk"])
    exec(compile(ast.Module([function], []), "allreducer.py", "exec"), names)
    return names["gtopk_sparse_allreduce"]


def compare(clone: Path) -> None:
    theirs, fabric, comm = load_theirs(clone), MpiFabric(), MPI.COMM_WORLD
    for network, elements in SIZES.items():
        k = int(DENSITY * elements)
        gradient = torch.randn(elements, generator=torch.Generator().manual_seed(comm.rank))
        mine = select_topk(gradient, k)
        seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(TURNS):
            comm.Barrier()
            began = time.perf_counter()
            ours = gtopk_allreduce(fabric, mine, Wire(k)).kept
            seconds["ours"].append(comm.allreduce(time.perf_counter() - began, MPI.MAX))
            counting = Counting(comm)
            indexes, values = mine.indices.numpy().astype(np.uint32), mine.values.numpy().copy()
            comm.Barrier()
            began = time.perf_counter()
            found, places, _ = theirs(counting, values, {}, indexes)
            seconds["theirs"].append(comm.allreduce(time.perf_counter() - began, MPI.MAX))
        sent = comm.allreduce(counting.sent)
        order = np.argsort(places)
        same_places = np.array_equal(places[order].astype(np.int64), ours.indices.numpy().astype(np.int64))
        missed = len(np.setdiff1d(ours.indices.numpy(), places))
        same_values = same_places and np.allclose(found[order], ours.values.numpy(), rtol=1e-6)
        if comm.rank == 0:
            ratio = median(seconds["theirs"]) / median(seconds["ours"])
            print(
                f"{network}: k = {k}, {comm.size} ranks: places {'equal' if same_places else f'{missed} differ'}, "
                f"values {'equal' if same_values else 'differ'}; they send {sent / k:.0f} bytes an element in all "
                f"and {counting.barriers} barriers; median of {TURNS}: ours {1e3 * median(seconds['ours']):.2f} ms, "
                f"theirs {1e3 * median(seconds['theirs']):.2f} ms, {ratio:.2f} times",
                flush=True,
            )


if __name__ == "__main__":
    compare(Path(sys.argv[1]).resolve())
