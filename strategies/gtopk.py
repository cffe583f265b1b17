"""gTop-k S-SGD: the k largest of the sums of all workers' k largest gradients (gTop-k, Algorithms 2, 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.sparse_forms import gtopk_tree
from repro.algorithms.timing.step import Step, assemble_step
from repro.fabric.sparse.collectives import Reduced, gtopk_allreduce, topk_allgather
from repro.fabric.sparse.gradients import Sparse, Wire, keep_topk, sum_all
from repro.strategies.shared.sparsified import SparseOptions, Sparsified


@dataclass
class Options(SparseOptions):
    aggregation: Literal["tree", "allgather"] = "tree"  # tree: Algorithm 3; allgather: the naive version, Algorithm 2
    # printed: Algorithm 4, line 10; exact: the rank that drops a partial sum in a merge adds it to its residual
    residual: Literal["printed", "exact"] = "printed"


class GTopK(Sparsified):
    """Algorithm 4 (with `aggregation: allgather` Algorithm 2), corrected by docs/errata.md, GK-1 and GK-5:
    exactly k; the mean over P workers in line 11.

    Line 10 as printed returns a rank's values to its residual if their index is not among the global top-k. If a merge
    drops a partial sum whose index survives through another subtree, the sum is neither applied nor returned: the lost
    mass, which is counted. With `residual: exact` the rank that drops a partial sum adds it to its residual, instead of
    line 10. Then the applied updates and the residuals are together the sum of all gradients. (In Algorithm 2 line 14
    returns everything that is dropped.)
    """

    name = "gtopk"
    Options = Options

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step:
        """After the backward pass: select, exchange and merge in the tree."""
        k, select = cls.selected(setting, options)
        merge = setting.testbed.merge_s_per_byte
        return assemble_step(setting, gtopk_tree(place.workers, k, place.alpha, place.beta, merge), compress=select)

    def exchange(self, mine: Sparse, wire: Wire) -> list[Sparse]:
        if self.options.aggregation == "allgather":
            reduced = self._naive(mine, wire)
        else:
            reduced = gtopk_allreduce(self.worker.fabric, mine, wire, self.channel)  # line 9
        if self.worker.arithmetic:
            self._return_dropped(mine, reduced)
        return [reduced.kept]

    def _naive(self, mine: Sparse, wire: Wire) -> Reduced:
        """Algorithm 2, lines 9 to 13: the sum over all workers, and its k largest elements."""
        fabric, message = self.worker.fabric, wire.pack(mine)
        everyone = topk_allgather(fabric, message, wire, self.channel)
        with fabric.compute(fabric.costs.seconds("merge", fabric.size * wire.bytes), "host"):
            return Reduced(keep_topk(sum_all(everyone), wire.k), [], wire.rounding(mine, message))

    def _return_dropped(self, mine: Sparse, reduced: Reduced) -> None:
        top_k = reduced.kept
        exact = self.options.residual == "exact" and self.options.aggregation == "tree"
        for dropped in reduced.dropped:
            self.totals["dropped_mass"] += dropped.mass()
            if exact:
                dropped.add_to(self.residual)
            else:
                self.totals["lost_mass"] += dropped.where(dropped.indices_in(top_k)).mass()
        if not exact:
            mine.where(~mine.indices_in(top_k)).add_to(self.residual)  # line 10
        for rounding in reduced.rounding:
            # without `exact` line 10 has returned unrounded values for the other indices
            (rounding if exact else rounding.where(rounding.indices_in(top_k))).add_to(self.residual)
