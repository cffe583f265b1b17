"""GPipe's schedule on PipeDream's stages: all forward passes of a flush, then all backward passes (beyond the paper).

Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism" (NeurIPS 2019), section
2.2. Their microbatches are our minibatches: an update uses the mean gradient of all of a flush.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from repro.algorithms.pipeline.configuration import Configuration
from repro.algorithms.pipeline.passes import Plan, flush_of
from repro.core.fields import Count
from repro.strategies.shared.pipeline import Pipeline, PipelineOptions


@dataclass
class Options(PipelineOptions):
    """flush: minibatches of an update; null: the number of workers, so that an update has the global batch."""

    flush: Count | None = None


class GPipe(Pipeline):
    """Synchronous SGD: no gradient is stale. Every minibatch of a flush is in flight at once."""

    name = "gpipe"
    Options = Options
    schedule: ClassVar[str] = "gpipe"

    def plan(self, configuration: Configuration, minibatches: int) -> Plan:
        flush = self.options.flush or flush_of(configuration.layout)
        return Plan(configuration.layout, minibatches, schedule=self.schedule, flush=flush)
