"""The straightforward overlap of iBatch's case study: parameters are pulled layer by layer (Figure 4 (b))."""

from __future__ import annotations

from repro.algorithms.batching.modes import decide
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.strategies.shared.sharded_server import ShardedServer


class PSLayerwise(ShardedServer):
    """A pull for each layer with parameters, which pays the startup time each time; a layer waits for its own alone."""

    name = "ps_layerwise"

    def decide(self, profile: PullProfile) -> Batches:
        return decide(profile, "layerwise")
