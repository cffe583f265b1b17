"""Program `gtopk_exchange`: a whole gTop-k exchange, ours and its authors', part by part.

Gradient into the residual, select, aggregate, put back what was not taken, as a vector. The authors' is the algorithm
of their released code (`repro.probes.shared.gtopk_authors`). `bare` has the messages of ours alone, with nothing
selected, packed or merged: what the network needs for them is the floor of any gTopKAllReduce on it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from repro import probes
from repro.algorithms.timing import sparse_forms
from repro.core.errors import InputError
from repro.core.fields import Count, Model, Positive, Share
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.fabric.collectives.dense import binomial_broadcast
from repro.fabric.sparse.collectives import gtopk_allreduce
from repro.fabric.sparse.gradients import Wire
from repro.fabric.sparse.selection import select
from repro.probes import p2p
from repro.probes.shared import gtopk_authors as authors
from repro.probes.shared.options import needs_real_time
from repro.probes.shared.stopwatch import meet, spread

PARTS = ("select_s", "allreduce_s", "apply_s", "whole_s", "cpu_s")


class Options(Model):
    """Sides, in turns, on normal gradients of so many elements."""

    sides: Annotated[list[Literal["ours", "sampled", "authors", "bare"]], Field(min_length=1)]
    elements: Annotated[list[Count], Field(min_length=1)]
    density: Share
    turns: Count  # after one that does not count
    beta_s_per_byte: Positive | None = None  # of the links, for the bound of Table I; alpha is measured


def check(config: RunConfig) -> None:
    """InputError for ranks that the authors' code cannot use."""
    needs_real_time(config)
    if config.testbed.launcher == "torchrun":
        raise InputError(f"testbed.launcher=torchrun: program {config.program} is about MPI, as its authors' code is")
    if config.workers < 2 or config.workers & (config.workers - 1):
        raise InputError(f"workers={config.workers}: the authors' code needs a power of two, 2 or more")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part."""
    probe = config.probe
    probes.start(fabric, len(probe.elements))
    alpha = p2p.measure(fabric, [4], 3)[0]["mean_s"]
    rows: list[dict[str, Any]] = []
    for done, elements in enumerate(probe.elements, 1):
        k = max(1, round(probe.density * elements))
        gradient = torch.randn(elements, generator=torch.Generator().manual_seed(1000 * fabric.rank + 1))
        sides = {name: SIDES[name](fabric, gradient, k) for name in probe.sides}
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
        for turn in range(probe.turns + 1):
            for name in sorted(sides, reverse=bool(turn % 2)):
                turns[name].append(step(fabric, sides[name]))
        beta = probe.beta_s_per_byte
        bound = sparse_forms.gtopk_tree(fabric.size, k, alpha, beta) if beta else None
        for name, taken in turns.items():
            parts = {part: spread([turn[part] for turn in taken[1:]]) for part in PARTS}
            rows.append({"side": name, "elements": elements, "k": k, **parts, "bound_s": bound})
        probes.progress(fabric, done)
    metrics = {f"whole_s/{row['side']}/{row['elements']}": row["whole_s"]["median"] for row in rows}
    times = (f"{row['side']} {row['elements']}: {1e3 * row['whole_s']['median']:.3g} ms" for row in rows)
    return probes.Finding({"alpha_s": alpha, "rows": rows}, metrics, ", ".join(times))


class Side:
    """A rank's gradient (n,), its residual, and where what all apply goes."""

    how = "exact"

    def __init__(self, fabric: Any, gradient: torch.Tensor, k: int):
        self.fabric, self.gradient, self.k = fabric, gradient, k
        self.residual, self.out = torch.zeros_like(gradient), torch.empty_like(gradient)

    def select(self) -> Any:
        """This rank's k elements, out of gradient and residual."""
        self.residual.add_(self.gradient)
        mine = select(self.residual, self.k, self.how)
        mine.clear(self.residual)
        return mine

    def allreduce(self, mine: Any) -> Any:
        """The global top-k of all ranks' elements."""
        return gtopk_allreduce(self.fabric, mine, Wire(self.k)).kept

    def apply(self, mine: Any, found: Any) -> None:
        """What of this rank's was not found goes back into the residual, what was found into a vector of zeros."""
        mine.where(~mine.indices_in(found)).add_to(self.residual)
        self.out.zero_()
        found.add_to(self.out)


class Sampled(Side):
    how = "sampled"


class Authors(Side):
    def __init__(self, fabric: Any, gradient: torch.Tensor, k: int):
        super().__init__(fabric, gradient, k)
        self.mask = torch.empty_like(gradient)

    def select(self) -> Any:
        return authors.select(self.gradient, self.residual, self.mask, self.k)

    def allreduce(self, mine: Any) -> Any:
        return authors.allreduce(self.fabric.comms[0], *mine)

    def apply(self, mine: Any, found: Any) -> None:
        values, places = found
        authors.put_back(self.residual, mine[0], mine[1], authors.included(mine[1], places))
        self.out.zero_()
        self.out[torch.from_numpy(places)] = torch.from_numpy(values)


class Bare(Side):
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

    def apply(self, mine: Any, found: Any) -> None:
        return None


SIDES: dict[str, type[Side]] = {"ours": Side, "sampled": Sampled, "authors": Authors, "bare": Bare}


def step(fabric: Fabric, side: Side) -> dict[str, float]:
    """An exchange, of which all ranks begin each part together."""
    mine, *selecting = timed(fabric, side.select)
    found, *reducing = timed(fabric, lambda: side.allreduce(mine))
    _, *applying = timed(fabric, lambda: side.apply(mine, found))
    walls, spent = zip(selecting, reducing, applying)
    return dict(zip(PARTS, (*walls, sum(walls), sum(spent))))


def timed(fabric: Fabric, work: Any) -> tuple[Any, float, float]:
    """(result, the slowest rank's seconds, CPU seconds of all ranks)."""
    meet(fabric)
    began, cpu = fabric.now(), time.process_time()
    result = work()
    walls, spent = zip(*fabric.exchange((fabric.now() - began, time.process_time() - cpu)))
    return result, max(walls), sum(spent)
