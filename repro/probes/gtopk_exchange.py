"""Program `gtopk_exchange`: seconds of each part of a gTop-k exchange, for this project's code and its authors'.

The parts: add the gradient to the residual and select, aggregate, return rejected values to the residual and write the
result as a vector. Side `authors` is the algorithm of their released code (`repro.probes.shared.gtopk_authors`). Side
`bare` only sends the messages, without selecting, packing or merging: the lower bound of any gTopKAllReduce.
"""

from __future__ import annotations

import time
from functools import partial
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
from repro.fabric.sparse.selection import select_topk
from repro.probes import ResultPart, p2p
from repro.probes.shared import gtopk_authors as authors
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.options import needs_real_time
from repro.probes.shared.stopwatch import Spread, start_together, time_spread

PARTS = ("select_s", "allreduce_s", "apply_s", "whole_s", "cpu_s")


class Options(Model):
    sides: Annotated[list[Literal["ours", "sampled", "authors", "bare"]], Field(min_length=1)]
    elements: Annotated[list[Count], Field(min_length=1)]  # of gradients, which are normal draws
    density: Share
    turns: Count  # after an uncounted one
    beta_s_per_byte: Positive | None = None  # of the links, for the bound of Table I; alpha is measured


class ExchangeVariant(ResultPart):
    """One side of the comparison: times of the slowest rank, but CPU time of all ranks together.

    bound_s: Table I's 2 alpha log2 P + 16 k beta log2 P, if beta is known.
    """

    side: str
    elements: int
    k: int
    select_s: Spread
    allreduce_s: Spread
    apply_s: Spread
    whole_s: Spread
    cpu_s: Spread
    bound_s: float | None


class Result(ResultPart):
    """alpha_s: half the round trip of a short message."""

    alpha_s: float
    rows: list[ExchangeVariant]


def check(config: RunConfig) -> None:
    needs_real_time(config)
    if config.testbed.launcher == "torchrun":
        raise InputError(f"testbed.launcher=torchrun: program {config.program} compares MPI code; use mpirun")
    if config.workers < 2 or config.workers & (config.workers - 1):
        raise InputError(f"workers={config.workers}: the authors' code needs a power of two, 2 or more")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    probes.announce_iterations(len(probe.elements), fabric.rank)
    alpha = p2p.measure_points(fabric, [4], 3)[0]["mean_s"]
    rows: list[dict[str, Any]] = []
    for done, elements in enumerate(probe.elements, 1):
        k = max(1, round(probe.density * elements))
        gradient = torch.randn(elements, generator=torch.Generator().manual_seed(1000 * fabric.rank + 1))
        sides = {name: SIDES[name](fabric, gradient, k) for name in probe.sides}
        turns = run_in_turns(
            {name: partial(exchange_once, fabric, sides[name]) for name in sides}, probe.turns, alternate=True
        )
        beta = probe.beta_s_per_byte
        bound = sparse_forms.gtopk_tree(fabric.size, k, alpha, beta) if beta else None
        for name, counted in turns.items():
            parts = {part: time_spread([turn[part] for turn in counted]) for part in PARTS}
            rows.append({"side": name, "elements": elements, "k": k, **parts, "bound_s": bound})
        probes.report_progress(done, fabric.rank)
    metrics = {f"whole_s/{row['side']}/{row['elements']}": row["whole_s"]["median"] for row in rows}
    times = (f"{row['side']} {row['elements']}: {1e3 * row['whole_s']['median']:.3g} ms" for row in rows)
    return probes.Finding({"alpha_s": alpha, "rows": rows}, metrics, ", ".join(times))


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

    def apply(self, mine: Any, top: Any) -> None:
        return None


SIDES: dict[str, type[Side]] = {"ours": Side, "sampled": Sampled, "authors": Authors, "bare": Bare}


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
