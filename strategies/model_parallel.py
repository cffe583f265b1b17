"""Model parallelism without pipelining: one minibatch at a time passes through all stages (PipeDream, Figure 3)."""

from __future__ import annotations

from dataclasses import dataclass

from repro.algorithms.pipeline.configuration import Configuration
from repro.algorithms.pipeline.layout import parse_config
from repro.algorithms.pipeline.passes import Plan
from repro.core.errors import InputError
from repro.strategies.shared.pipeline import Pipeline, PipelineOptions


@dataclass
class Options(PipelineOptions):
    """As for every pipeline; stages are not replicated."""

    config: str = "straight"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.config == "auto" or (self.config != "straight" and max(parse_config(self.config)) > 1):
            raise InputError(
                f"strategy.config={self.config}: model parallelism has every stage on one machine: straight, or 1-1-1"
            )


class ModelParallel(Pipeline):
    """At most one rank computes at any time. Plain SGD on the run's minibatches, one after the other."""

    name = "model_parallel"
    unlike_one_worker = "each minibatch is an update of its own"
    Options = Options

    def plan(self, configuration: Configuration, minibatches: int) -> Plan:
        return Plan(configuration.layout, minibatches, in_flight=1)
