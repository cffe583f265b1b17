"""PipeDream: pipeline parallelism with 1F1B, weight stashing and replicated stages (Harlap et al., 2018, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from repro.algorithms.pipeline.configuration import Configuration
from repro.algorithms.pipeline.passes import SEMANTICS, Plan
from repro.core.errors import unknown
from repro.core.fields import Count
from repro.strategies.shared.pipeline import Pipeline, PipelineOptions


@dataclass
class Options(PipelineOptions):
    """semantics: which weights passes use, one of `repro.algorithms.pipeline.passes.SEMANTICS`. in_flight: minibatches
    that each replica of the input stage has in flight at most; null: NOAM. overlap: whether replicas go on while they
    synchronise."""

    semantics: str = "stashing"
    in_flight: Count | None = None
    overlap: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.semantics not in SEMANTICS:
            raise unknown("strategy.semantics", str(self.semantics), SEMANTICS)


class PipeDream(Pipeline):
    """1F1B: NOAM minibatches are admitted, then each stage does one backward and one forward pass in turn.

    With weight stashing the gradient of minibatch t in stage s of n, straight, is of the weights after t - n + s
    minibatches (s from 1; section 3.4). One stage on one rank is plain SGD; one stage on all of them is BSP.

    A stage on m ranks updates in rounds: round r averages the gradients of minibatches r m to r m + m - 1
    (errata.md, PD-5). Where more than one minibatch is in flight the replicas do not wait for a round before their next
    forward pass, which uses the weights before it: so that communication hides behind computation, as the paper's cost
    model has it.
    """

    name = "pipedream"
    Options = Options

    def plan(self, configuration: Configuration, minibatches: int) -> Plan:
        options = self.options
        return Plan(
            configuration.layout,
            minibatches,
            in_flight=options.in_flight,
            semantics=options.semantics,
            overlap=options.overlap,
        )
