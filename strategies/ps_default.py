"""The default parameter server: pull all parameters, forward, backward, push all gradients (iBatch, Figure 2 (a))."""

from __future__ import annotations

from repro.algorithms.batching.modes import decide
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.strategies.shared.sharded_server import ShardedServer


class PSDefault(ShardedServer):
    """One pull an iteration, which pays the startup time once; nothing is computed before all of it is in."""

    name = "ps_default"

    def decide(self, profile: PullProfile) -> Batches:
        return decide(profile, "default")
