"""gTop-k S-SGD: of all workers' k largest gradients the global k largest (gTop-k, Algorithms 2, 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from repro.fabric.sparse.collectives import Reduced, gtopk_allreduce, topk_allgather
from repro.fabric.sparse.gradients import Sparse, Wire, sum_all, top
from repro.strategies.shared.sparsified import SparseOptions, Sparsified


@dataclass
class Options(SparseOptions):
    aggregation: Literal["tree", "allgather"] = "tree"  # tree: Algorithm 3; allgather: the naive version, Algorithm 2
    # printed: Algorithm 4, line 10; exact: what a merge drops goes back where it was dropped
    residual: Literal["printed", "exact"] = "printed"


class GTopK(Sparsified):
    """Algorithm 4 (with `aggregation: allgather` Algorithm 2), corrected by docs/errata.md, GK-1 and GK-5:
    exactly k; the mean over P workers in line 11.

    Line 10 as printed puts a rank's values back whose index is not among the global top-k. A partial sum that a merge
    inside the tree drops while its index survives through another subtree is then neither applied nor put back: the
    lost mass, which is counted. With `residual: exact` every partial sum that is dropped goes into the residual of the
    rank that dropped it, in the place of line 10: applied and residuals together are the sum of all gradients.
    (Algorithm 2 drops nothing but what line 14 puts back.)
    """

    name = "gtopk"
    Options = Options

    def exchange(self, mine: Sparse, wire: Wire) -> list[Sparse]:
        if self.options.aggregation == "allgather":
            reduced = self._naive(mine, wire)
        else:
            reduced = gtopk_allreduce(self.worker.fabric, mine, wire, self.channel)  # line 9
        if self.worker.arithmetic:
            self._put_back(mine, reduced)
        return [reduced.kept]

    def _naive(self, mine: Sparse, wire: Wire) -> Reduced:
        """Algorithm 2, lines 9 to 13: the sum of all, and its k largest."""
        fabric, message = self.worker.fabric, wire.pack(mine)
        everyone = topk_allgather(fabric, message, wire, self.channel)
        with fabric.compute(fabric.costs.seconds("merge", fabric.size * wire.bytes), "host"):
            return Reduced(top(sum_all(everyone), wire.k), [], wire.rounding(mine, message))

    def _put_back(self, mine: Sparse, reduced: Reduced) -> None:
        kept = reduced.kept
        exact = self.options.residual == "exact" and self.options.aggregation == "tree"
        for dropped in reduced.dropped:
            self.totals["dropped_mass"] += dropped.mass()
            if exact:
                dropped.add_to(self.residual)
            else:
                self.totals["lost_mass"] += dropped.where(dropped.indices_in(kept)).mass()
        if not exact:
            mine.where(~mine.indices_in(kept)).add_to(self.residual)  # line 10
        for rounding in reduced.rounding:
            # without `exact` line 10 has put unrounded values back where the index is not applied
            (rounding if exact else rounding.where(rounding.indices_in(kept))).add_to(self.residual)
