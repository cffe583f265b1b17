"""One rank of the comparison of gTop-k with its authors' code; rank 0 prints `@{...}` for each job of a JSON argument.

{"launcher": "mpirun", "rounds", "jobs": [{"what": "step", "elements", "sides", "turns"} | {"what": "latency"}]}
step     -> a turn {side: {select_s, allreduce_s, apply_s, whole_s, allreduce_cpu_s, cpu_s}}: the slowest rank's;
            CPU seconds of all ranks
latency  -> seconds of an empty message, half a round trip of ranks 0 and 1, one a turn
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

from repro.bench import gtopk_authors as authors
from repro.bench.rank_program import main
from repro.fabric.collectives.dense import binomial_broadcast
from repro.fabric.real.mpi import MpiFabric
from repro.fabric.sparse.collectives import gtopk_allreduce
from repro.fabric.sparse.gradients import Wire
from repro.fabric.sparse.selection import select
from repro.rank.main import guarded

PINGS = 200
DENSITY = 0.001


class Side:
    """A rank's gradient (n,), its residual, and where what all apply goes; `step` is an iteration's exchange."""

    def __init__(self, fabric: MpiFabric, gradient: torch.Tensor):
        self.fabric, self.gradient, self.residual = fabric, gradient, torch.zeros_like(gradient)
        self.k = round(DENSITY * len(gradient))

    def select(self) -> Any:
        """This rank's k elements, out of gradient and residual."""

    def allreduce(self, mine: Any) -> Any:
        """The global top-k of all ranks' elements."""

    def apply(self, mine: Any, found: Any, out: torch.Tensor) -> None:
        """What of this rank's was not found goes back into the residual, what was found into a vector of zeros."""


class Ours(Side):
    how = "exact"

    def select(self) -> Any:
        self.residual.add_(self.gradient)
        mine = select(self.residual, self.k, self.how)
        mine.clear(self.residual)
        return mine

    def allreduce(self, mine: Any) -> Any:
        return gtopk_allreduce(self.fabric, mine, Wire(self.k)).kept

    def apply(self, mine: Any, found: Any, out: torch.Tensor) -> None:
        mine.where(~mine.indices_in(found)).add_to(self.residual)
        out.zero_()
        found.add_to(out)


class Sampled(Ours):
    how = "sampled"


class Authors(Side):
    def __init__(self, fabric: MpiFabric, gradient: torch.Tensor):
        super().__init__(fabric, gradient)
        self.mask = torch.empty_like(gradient)

    def select(self) -> Any:
        return authors.select(self.gradient, self.residual, self.mask, self.k)

    def allreduce(self, mine: Any) -> Any:
        return authors.allreduce(self.fabric.comms[0], *mine)

    def apply(self, mine: Any, found: Any, out: torch.Tensor) -> None:
        values, places = found
        authors.put_back(self.residual, mine[0], mine[1], authors.included(mine[1], places))
        out.zero_()
        out[torch.from_numpy(places)] = torch.from_numpy(values)


class Bare(Side):
    """The messages of our tree and broadcast, as long and in that order, with nothing selected, packed or merged: what
    this machine needs for them is the floor of any gTopKAllReduce on it."""

    def select(self) -> torch.Tensor:
        return Wire(self.k).empty(self.gradient.device)

    def allreduce(self, mine: torch.Tensor) -> None:
        rank, ranks, distance = self.fabric.rank, self.fabric.size, 1
        while distance < ranks and rank % distance == 0:
            if rank % (2 * distance):
                self.fabric.send(mine, rank - distance)
            elif rank + distance < ranks:
                self.fabric.recv(mine, rank + distance)
            distance *= 2
        binomial_broadcast(self.fabric, mine)


SIDES: dict[str, type[Side]] = {"ours": Ours, "sampled": Sampled, "authors": Authors, "bare": Bare}


def run_job(fabric: MpiFabric, job: dict[str, Any], turn: int) -> list[Any]:
    if job["what"] == "latency":
        return latency(fabric, job["turns"])
    draw = torch.Generator().manual_seed(1000 * fabric.rank + 1)
    gradient = torch.randn(job["elements"], generator=draw)
    sides = {name: SIDES[name](fabric, gradient) for name in job["sides"]}
    out = torch.empty_like(gradient)
    turns = [
        {name: step(fabric, sides[name], out) for name in sorted(sides, reverse=bool(number % 2))}
        for number in range(job["turns"] + 1)
    ]
    return turns[1:]


def step(fabric: MpiFabric, side: Side, out: torch.Tensor) -> dict[str, float]:
    """An exchange, of which all ranks begin each part together."""
    mine, select_s, select_cpu_s = timed(fabric, side.select)
    found, allreduce_s, allreduce_cpu_s = timed(fabric, lambda: side.allreduce(mine))
    _, apply_s, apply_cpu_s = timed(fabric, lambda: side.apply(mine, found, out))
    return {
        "select_s": select_s,
        "allreduce_s": allreduce_s,
        "apply_s": apply_s,
        "whole_s": select_s + allreduce_s + apply_s,
        "allreduce_cpu_s": allreduce_cpu_s,
        "cpu_s": select_cpu_s + allreduce_cpu_s + apply_cpu_s,
    }


def timed(fabric: MpiFabric, work: Any) -> tuple[Any, float, float]:
    """(result, the slowest rank's seconds, CPU seconds of all ranks)."""
    fabric.exchange(None)
    fabric.barrier()
    began, cpu = fabric.now(), time.process_time()
    result = work()
    mine = fabric.now() - began, time.process_time() - cpu
    walls, spent = zip(*fabric.exchange(mine))
    return result, max(walls), sum(spent)


def latency(fabric: MpiFabric, turns: int) -> list[float]:
    token, found = torch.zeros(1), []
    for _ in range(turns):
        fabric.barrier()
        began = fabric.now()
        for _ in range(PINGS if fabric.rank < 2 else 0):
            if fabric.rank == 0:
                fabric.send(token, 1)
                fabric.recv(token, 1)
            else:
                fabric.recv(token, 0)
                fabric.send(token, 0)
        found.append(max(fabric.exchange(fabric.now() - began)[:2]) / PINGS / 2)
    return found


if __name__ == "__main__":
    guarded(lambda: main(json.loads(sys.argv[1]), run_job))
