"""Seconds of each part of a gTop-k exchange on 4 ranks, for this project's code and its authors'.

The parts: add the gradient to the residual and select, aggregate, return rejected values to the residual and write the
result as a vector. Side `authors` is the algorithm of their released code (`tests.bench.gtopk_authors`). On limited
links two sides are lower bounds of the aggregation: `bare` is a program without a fabric, which only merges and sends,
by MPI's blocking calls; `wire` only sends.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from repro.algorithms.timing import sparse_forms
from repro.core.errors import InputError, TooBusy
from repro.core.terminal import warn
from repro.fabric.base import Fabric
from repro.fabric.collectives.dense import binomial_broadcast
from repro.fabric.sparse.collectives import gtopk_allreduce
from repro.fabric.sparse.gradients import EMPTY, Sparse, Wire
from repro.fabric.sparse.on_host import merge_topk_on_host
from repro.fabric.sparse.selection import select_topk
from repro.probes import p2p
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.stopwatch import start_together, time_spread
from tests.bench import gtopk_authors as authors
from tests.bench.ranks import print_rows, run_ranks

RANKS, DENSITY = 4, 0.001  # the authors' code needs a power of two of ranks
PARTS = ("select_s", "allreduce_s", "apply_s", "whole_s", "cpu_s")
OURS = ["ours", "sampled", "authors"]
# testbed -> sides, and seconds a byte of its links for the bound of Table I
TESTBEDS: dict[str, tuple[list[str], float | None]] = {
    "here": (OURS, None), "shaped/1g": ([*OURS, "bare", "wire"], 8.3646e-9),
}  # fmt: skip
SIZES = {"quick": ([5000], 1), "full": ([1000000, 10000000, 60000000], 7)}  # elements of gradients; turns
GOALS = [
    {"what": "the authors' time over ours, a whole exchange", "only": "elements < 10000000",
     "where": {"side": "authors"}, "over": {"side": "ours"}, "number": "whole_s.median", "by": ["testbed", "elements"],
     "at_least": 1.0},
    {"what": "the authors' time over ours, a whole exchange", "only": "elements >= 10000000",
     "where": {"side": "authors"}, "over": {"side": "ours"}, "number": "whole_s.median", "by": ["testbed", "elements"],
     "at_least": 2.0},
    {"what": "the best allreduce over its wire bound", "only": "testbed == 'shaped/1g'", "where": {"side": "ours"},
     "floor": {"side": "bare"}, "number": "allreduce_s.min / bound_s", "by": ["elements"], "at_most": 1.3},
]  # fmt: skip


def measure_rows(scale: str) -> list[dict[str, Any]]:
    """A row for each testbed, size and side; without testbeds that this machine cannot have (now), with a warning."""
    elements, turns = SIZES[scale]
    rows = []
    for name, (sides, beta) in TESTBEDS.items():
        settings = {"sides": sides, "sizes": elements, "turns": turns, "beta_s_per_byte": beta}
        try:
            made = run_ranks("tests.bench.gtopk_exchange", RANKS, name, settings)
        except (InputError, TooBusy) as error:
            warn(f"{name}: {error}")
            continue
        rows += [{"testbed": name} | row for row in made]
    return rows


def exchange_rows(
    fabric: Fabric, sides: Sequence[str], sizes: Sequence[int], turns: int, beta_s_per_byte: float | None
) -> list[dict[str, Any]]:
    """The rows of a testbed, on every rank: times of the slowest rank, but CPU time of all ranks together.

    bound_s: Table I's 2 alpha log2 P + 16 k beta log2 P, if beta is known; alpha is half the round trip of a short
    message. turns: after an uncounted one.
    """
    alpha = p2p.measure_points(fabric, [4], 3)[0]["mean_s"]
    rows: list[dict[str, Any]] = []
    for elements in sizes:
        k = max(1, round(DENSITY * elements))
        gradient = torch.randn(elements, generator=torch.Generator().manual_seed(1000 * fabric.rank + 1))
        made = {name: SIDES[name](fabric, gradient, k) for name in sides}
        counted = run_in_turns(
            {name: partial(exchange_once, fabric, made[name]) for name in made}, turns, alternate=True
        )
        beta = beta_s_per_byte
        bound = sparse_forms.gtopk_tree(fabric.size, k, alpha, beta) if beta else None
        for name, times in counted.items():
            parts = {part: time_spread([turn[part] for turn in times]) for part in PARTS}
            rows.append({"side": name, "elements": elements, "k": k, **parts, "bound_s": bound})
    return rows


class Side:
    """A rank's gradient (n,), its residual (n,), and `out` (n,) for the aggregated gradient."""

    how = "exact"

    def __init__(self, fabric: Any, gradient: torch.Tensor, k: int):
        self.fabric, self.gradient, self.k = fabric, gradient, k
        self.residual, self.out = torch.zeros_like(gradient), torch.empty_like(gradient)

    def select(self) -> Any:
        """Select this rank's k elements of gradient + residual, and remove them from the residual."""
        self.residual.add_(self.gradient)
        mine = select_topk(self.residual, self.k, self.how)
        mine.clear(self.residual)
        return mine

    def allreduce(self, mine: Any) -> Any:
        """The global top-k of all ranks' elements."""
        return gtopk_allreduce(self.fabric, mine, Wire(self.k)).kept

    def apply(self, mine: Any, top: Any) -> None:
        """Return this rank's rejected elements to the residual, and write the global top-k to `out`."""
        mine.where(~mine.indices_in(top)).add_to(self.residual)
        self.out.zero_()
        top.add_to(self.out)


class Sampled(Side):
    how = "sampled"


class Authors(Side):
    def __init__(self, fabric: Any, gradient: torch.Tensor, k: int):
        super().__init__(fabric, gradient, k)
        self.mask = torch.empty_like(gradient)

    def select(self) -> Any:
        return authors.select_topk(self.gradient, self.residual, self.mask, self.k)

    def allreduce(self, mine: Any) -> Any:
        return authors.gtopk_allreduce(self.fabric.comms[0], *mine)

    def apply(self, mine: Any, top: Any) -> None:
        values, indices = top
        authors.put_back(self.residual, mine[0], mine[1], indices)
        self.out.zero_()
        self.out[torch.from_numpy(indices)] = torch.from_numpy(values)


class Bare(Side):
    def allreduce(self, mine: Sparse) -> Sparse:
        comm, rank, distance = self.fabric.comms[0], self.fabric.rank, 1
        kept, message = (mine.values.numpy(), mine.indices.numpy()), np.empty((2, self.k), np.int32)
        values, indices = message[0].view(np.float32), message[1]
        while distance < RANKS and rank % (2 * distance) == 0:
            comm.Recv(message, rank + distance)
            kept, _ = merge_topk_on_host(kept, (values, indices), self.k, EMPTY)
            distance *= 2
        values[:], indices[:] = kept
        if rank:
            comm.Send(message, rank - distance)
            comm.Recv(message, rank - distance)
        while distance > 1:
            distance //= 2
            comm.Send(message, rank + distance)
        return Sparse(torch.from_numpy(values), torch.from_numpy(indices))


class WireAlone(Side):
    def select(self) -> torch.Tensor:
        return Wire(self.k).empty(self.gradient.device)

    def allreduce(self, mine: torch.Tensor) -> None:
        rank, distance = self.fabric.rank, 1
        while distance < RANKS and rank % distance == 0:
            if rank % (2 * distance):
                self.fabric.send(mine, rank - distance)
            else:
                self.fabric.recv(mine, rank + distance)
            distance *= 2
        binomial_broadcast(self.fabric, mine)

    def apply(self, mine: Any, top: Any) -> None:
        return None


SIDES: dict[str, type[Side]] = {"ours": Side, "sampled": Sampled, "authors": Authors, "bare": Bare, "wire": WireAlone}


def exchange_once(fabric: Fabric, side: Side) -> dict[str, float]:
    """One exchange; all ranks begin each part together."""
    mine, *selecting = time_part(fabric, side.select)
    top, *reducing = time_part(fabric, lambda: side.allreduce(mine))
    _, *applying = time_part(fabric, lambda: side.apply(mine, top))
    walls, cpu = zip(selecting, reducing, applying)
    return dict(zip(PARTS, (*walls, sum(walls), sum(cpu))))


def time_part(fabric: Fabric, work: Any) -> tuple[Any, float, float]:
    """(result, the slowest rank's seconds, CPU seconds of all ranks)."""
    start_together(fabric)
    start, cpu_start = fabric.now(), time.process_time()
    result = work()
    walls, cpu = zip(*fabric.exchange((fabric.now() - start, time.process_time() - cpu_start)))
    return result, max(walls), sum(cpu)


if __name__ == "__main__":
    print_rows(exchange_rows)
