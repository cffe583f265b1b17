"""The iterations at which a run evaluates or writes checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from repro.experiment.schema import RunConfig


@dataclass(frozen=True)
class Stop:
    """An iteration after which the training clock pauses, and the reasons."""

    iteration: int
    evaluate: bool
    checkpoint: bool
    leave: bool = False  # a preemption: checkpoint and end here


@dataclass(frozen=True)
class TrainingPlan:
    """The length of the training and the distance between stops, in iterations of `workers` minibatches."""

    iterations: int
    eval_every: int
    checkpoint_every: int

    @classmethod
    def of(cls, config: RunConfig, iterations_per_epoch: int) -> TrainingPlan:
        def whole(epochs: float) -> int:
            return max(1, round(epochs * iterations_per_epoch))

        iterations = config.iterations(iterations_per_epoch)
        return cls(iterations, whole(config.eval_every), whole(config.checkpoint_every))

    def at(self, iteration: int) -> Stop:
        """What to do after an iteration."""
        last = iteration == self.iterations
        evaluate = last or iteration % self.eval_every == 0
        return Stop(iteration, evaluate, iteration % self.checkpoint_every == 0)

    def stops(self, after: int) -> Iterator[Stop]:
        """The stops after iteration `after`, including the end."""
        for iteration in range(after + 1, self.iterations + 1):
            stop = self.at(iteration)
            if stop.evaluate or stop.checkpoint:
                yield stop
