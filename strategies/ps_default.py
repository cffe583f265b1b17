"""The default parameter server: pull all parameters, forward, backward, push all gradients (iBatch, Figure 2 (a))."""

from __future__ import annotations

from repro.algorithms.batching import decision
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.strategies.shared.sharded_server import ShardedServer


class PSDefault(ShardedServer):
    """One pull for each iteration, with one startup time; the forward pass starts when it is complete."""

    name = "ps_default"

    def decide(self, profile: PullProfile) -> Batches:
        return decision.single_batch(profile)
