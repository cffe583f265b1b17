"""The paper's own numbers (reference/ibatch.csv), looked up by place, row, variant and quantity."""

from __future__ import annotations

from repro.reports.batched_pulls import MODES, NETWORKS
from repro.reports.reference import Quoted

SCALING = "Section Scalability"


class Published(Quoted):
    """The reference table; every number on the page that is the paper's comes from here."""

    paper = "ibatch"

    def speedup(self, network: str, mode: str, nodes: int) -> float | None:
        """A printed speed-up over a single node; None where the paper prints none."""
        found = self.maybe(SCALING, network, mode, f"speed-up, {nodes} nodes")
        return None if found is None else float(found)

    def improvement(self, over: str) -> float:
        """Of iBatch on 72 nodes of VGG19-22K over another mode, as a share."""
        return self.value(SCALING, "VGG19-22K", "ibatch", f"improvement over {over}, 72 nodes") / 100

    def printed(self, nodes: int) -> list[tuple[str, dict[str, float]]]:
        """(network, mode -> speed-up) of the networks of which the paper prints all three on that many nodes."""
        found = []
        for name in NETWORKS.values():
            of = {mode: self.speedup(name, mode, nodes) for mode in MODES}
            if None not in of.values():
                found.append((name, of))
        return found

    def parameters(self, network: str) -> float:
        """Of Table 1."""
        return 1e6 * self.value("Table 1", network, "all", "parameters")
