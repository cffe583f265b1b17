"""The default parameter server: pull all parameters, forward, backward, push all gradients (iBatch, Figure 2 (a))."""

from __future__ import annotations

from repro.algorithms.batching import decision
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.algorithms.timing.collective_forms import largest_block
from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, assemble_step
from repro.strategies.shared.sharded_server import ServerOptions, ShardedServer


class PSDefault(ShardedServer):
    """One pull for each iteration, with one startup time; the forward pass starts when it is complete."""

    name = "ps_default"

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: ServerOptions) -> Step | None:
        """Pull, forward, backward, and a push of all; a late worker pulls while it is late."""
        if options.push != "after":
            return None
        p, seconds = place.workers, sum(cls.pull_seconds(setting, place))
        if not seconds:
            return assemble_step(setting, 0.0)
        blocks = [largest_block(p, round(layer.parameter_bytes)) for layer in setting.profile.layers]
        add = sum(block * (p - 1) * setting.testbed.gamma_s_per_byte for block in blocks) / len(blocks)
        pull = place.alpha + seconds
        return assemble_step(setting, pull + (pull + add), late=max(0.0, setting.late_s - pull))

    def decide(self, profile: PullProfile) -> Batches:
        return decision.single_batch(profile)
