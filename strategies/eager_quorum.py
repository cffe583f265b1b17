"""eager-SGD between solo and a synchronous allreduce, the future work of section 8."""

from __future__ import annotations

from dataclasses import dataclass

from repro.core.fields import Count
from repro.fabric.collectives import activation
from repro.fabric.collectives.activation import QUORUM
from repro.strategies.base import RunFacts
from repro.strategies.shared.eager import Eager, EagerOptions


@dataclass
class QuorumOptions(EagerOptions):
    quorum: Count = 1  # ranks that must have reached a round for it to start; 1: solo, all: synchronous SGD

    def __post_init__(self) -> None:
        super().__post_init__()
        activation.check_activation(QUORUM, self.quorum)


class EagerQuorum(Eager):
    """At least `quorum` gradients of every step are in time."""

    name, initiator = "eager_quorum", QUORUM
    Options = QuorumOptions

    @classmethod
    def check(cls, options: QuorumOptions, run: RunFacts) -> None:
        activation.check_activation(QUORUM, options.quorum, run.workers)

    @property
    def quorum(self) -> int:
        return self.options.quorum
