"""The straightforward overlap of iBatch's case study: workers pull parameters layer by layer (Figure 4 (b))."""

from __future__ import annotations

from repro.algorithms.batching import decision
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, assemble_step
from repro.strategies.shared.sharded_server import ServerOptions, ShardedServer


class PSLayerwise(ShardedServer):
    """A pull, with its startup time, for each layer with parameters; a layer waits for its own parameters only."""

    name = "ps_layerwise"

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: ServerOptions) -> Step | None:
        """A layer's forward pass waits only for its own pull, and its push begins when its gradient is complete.

        A worker's delay begins while all still wait for the late worker of the iteration before, so it adds to that
        delay only if it is the same worker: 1 / (2 - 1 / p) of the delays count.
        """
        if options.push != "layerwise":
            return None
        layers, wire = setting.profile.layers, cls.pull_seconds(setting, place)
        if not any(wire):
            return assemble_step(setting, 0.0)

        def forward(late: float) -> float:
            arrived, computed = 0.0, late
            for layer, seconds in zip(layers, wire):
                arrived += (2 * place.alpha + seconds) * (seconds > 0)  # a request and its answer
                computed = max(computed, arrived) + layer.forward_s
            return computed

        computed = forward(0.0)
        sent = ready = 0.0
        for layer, seconds in zip(reversed(layers), reversed(wire)):
            ready += layer.backward_s
            sent = max(sent, ready) + seconds
        exposed = computed + sent - setting.computation_s  # the first request waits at the servers, so it takes no time
        late = (forward(setting.late_s) - computed) / (2 - 1 / place.workers)
        return assemble_step(setting, exposed, 2 * sum(wire) - exposed, late=late)

    def decide(self, profile: PullProfile) -> Batches:
        return decision.layer_batches(profile)
