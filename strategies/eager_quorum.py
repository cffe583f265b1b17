"""eager-SGD on the spectrum between solo and a synchronous allreduce, which section 8 leaves as future work."""

from __future__ import annotations

from dataclasses import dataclass

from repro.core.fields import Count
from repro.fabric.collectives import activation
from repro.fabric.collectives.activation import QUORUM
from repro.strategies.base import RunFacts
from repro.strategies.shared.eager import Eager, EagerOptions


@dataclass
class QuorumOptions(EagerOptions):
    quorum: Count = 1  # a round starts when so many ranks have come to it; 1: solo, all: synchronous SGD

    def __post_init__(self) -> None:
        super().__post_init__()
        activation.check(QUORUM, self.quorum)


class EagerQuorum(Eager):
    """At least `quorum` gradients of every step are in time: a guarantee, where majority's is an expectation."""

    name, initiator = "eager_quorum", QUORUM
    Options = QuorumOptions

    @classmethod
    def check(cls, options: QuorumOptions, run: RunFacts) -> None:
        activation.check(QUORUM, options.quorum, run.workers)

    @property
    def quorum(self) -> int:
        return self.options.quorum
