"""Top-k S-SGD: every worker's k largest gradients, summed by an allgather (gTop-k, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.sparse_forms import ELEMENT, topk_doubling
from repro.algorithms.timing.step import Step, assemble_step
from repro.fabric.sparse.collectives import check_allgather, topk_allgather
from repro.fabric.sparse.gradients import Sparse, Wire
from repro.strategies.shared.sparsified import SparseOptions, Sparsified


@dataclass
class Options(SparseOptions):
    allgather: str = "doubling"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_allgather(self.allgather)


class TopK(Sparsified):
    """Algorithm 1 corrected by docs/errata.md, GK-1 to GK-3: exactly k; line 8's residual is G^g; the sum (lines 15
    to 18) starts from zero, because the gathered values include the rank's own, with slices g k .. (g + 1) k.
    """

    name = "topk"
    Options = Options

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step:
        """After the backward pass: select, gather, and sum."""
        p, (k, select) = place.workers, cls.selected(setting, options)
        exchange = topk_doubling(p, k, place.alpha, place.beta)
        if p > 1:
            exchange += setting.costs.modelled("sum", p * k * ELEMENT)
        return assemble_step(setting, exchange, compress=select)

    def exchange(self, mine: Sparse, wire: Wire) -> list[Sparse]:
        fabric, message = self.worker.fabric, wire.pack(mine)
        for rounding in wire.rounding(mine, message):
            rounding.add_to(self.residual)
        everyone = topk_allgather(fabric, message, wire, self.channel, self.options.allgather)
        with fabric.compute(fabric.costs.seconds("sum", fabric.size * wire.bytes), "host"):
            return (
                everyone  # `apply` adds them up; their modelled cost counts here, as gTop-k's merges count in its tree
            )
