"""PipeDream: pipeline parallelism with 1F1B, weight stashing and replicated stages (Harlap et al., 2018, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from repro.algorithms.pipeline.configuration import Configuration
from repro.algorithms.pipeline.passes import SEMANTICS, Plan
from repro.core.errors import unknown_name
from repro.core.fields import Count
from repro.strategies.shared.pipeline import Pipeline, PipelineOptions


@dataclass
class Options(PipelineOptions):
    """semantics, in_flight (null: NOAM), overlap: see `repro.algorithms.pipeline.passes.Plan`."""

    semantics: str = "stashing"
    in_flight: Count | None = None
    overlap: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.semantics not in SEMANTICS:
            raise unknown_name("strategy.semantics", str(self.semantics), SEMANTICS)


class PipeDream(Pipeline):
    """1F1B: NOAM minibatches are admitted, then each stage alternates between backward and forward passes.

    With weight stashing the gradient of minibatch t in stage s of a straight pipeline of n stages is of the weights
    after t - n + s minibatches (s from 1; section 3.4). One stage on one rank is plain SGD; one stage on all is BSP.

    A stage on m ranks updates in rounds: round r averages the gradients of minibatches r m to r m + m - 1
    (errata.md, PD-5). With more than one minibatch in flight the replicas do not wait for a round before their next
    forward pass, which uses the weights before the round. So communication overlaps computation, as in the paper's cost
    model.
    """

    name = "pipedream"
    Options = Options

    def plan(self, configuration: Configuration, minibatches: int) -> Plan:
        options = self.options
        how = {"in_flight": options.in_flight, "semantics": options.semantics, "overlap": options.overlap}
        return Plan(configuration.layout, minibatches, **how)
