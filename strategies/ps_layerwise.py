"""The straightforward overlap of iBatch's case study: workers pull parameters layer by layer (Figure 4 (b))."""

from __future__ import annotations

from repro.algorithms.batching import decision
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.strategies.shared.sharded_server import ShardedServer


class PSLayerwise(ShardedServer):
    """A pull, with its startup time, for each layer with parameters; a layer waits for its own parameters only."""

    name = "ps_layerwise"

    def decide(self, profile: PullProfile) -> Batches:
        return decision.layer_batches(profile)
