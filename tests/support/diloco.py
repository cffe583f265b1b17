"""DiLoCo as somebody else's strategy, right and wrong: what the conformance tests must let through and what not.

Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models" (2023), Algorithm 1, with SGD as
the inner optimizer: every worker trains by itself, and every H iterations all take an outer step with the mean of how
far they have moved, by SGD with Nesterov momentum.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from repro.core.fields import Count, NonNegative, Share
from repro.fabric.base import ANY_SOURCE
from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import DataParallel
from repro.training.worker import Worker

NEVER = 10**9


@dataclass
class Options:
    H: Count = 10  # iterations from one outer step to the next
    outer_lr: NonNegative = 0.7
    outer_momentum: Share = 0.9


class DiLoCo(DataParallel):
    """Between outer steps the ranks hold weights of their own; the common ones are those of the last outer step."""

    name, Options = "diloco", Options
    identical_replicas = False
    neutral = {"H": NEVER}  # noqa: RUF012

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.common = worker.model_shard.weights.clone()
        self.velocity = torch.zeros_like(self.common)

    def step(self) -> StepReport:
        report = self.local_gradient(self.gradient)
        self.worker.update(self.gradient, summands=1)
        if self.iteration % self.options.H == 0:
            self.outer_step()
        return report

    def outer_step(self) -> None:
        options, weights = self.options, self.worker.model_shard.weights
        moved = self.common - weights
        with self.worker.clock.phase("communicate"):
            self.exchange(moved)
        self.velocity.mul_(options.outer_momentum).add_(moved)
        self.common.sub_(moved.add_(self.velocity, alpha=options.outer_momentum), alpha=options.outer_lr)
        weights.copy_(self.common)

    def exchange(self, moved: torch.Tensor) -> None:
        """The mean over the workers of how far each has moved, (n,), in the place of this one's."""
        self.worker.fabric.allreduce(moved, op="mean", algorithm="ring")

    def state_dict(self) -> dict:
        return super().state_dict() | {"common": self.common.clone(), "velocity": self.velocity.clone()}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.common.copy_(state["common"])
        self.velocity.copy_(state.get("velocity", torch.zeros_like(self.velocity)))


class ForgetsMomentum(DiLoCo):
    """Wrong: its checkpoints are without the outer momentum."""

    name = "diloco_forgets_momentum"

    def state_dict(self) -> dict:
        return {key: value for key, value in super().state_dict().items() if key != "velocity"}


class ForgetsCommonWeights(DiLoCo):
    """Wrong: after a checkpoint it takes this rank's weights for the common ones."""

    name = "diloco_forgets_common_weights"

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.common.copy_(self.worker.model_shard.weights)


class Sums(DiLoCo):
    """Wrong: it adds up how far the workers have moved."""

    name = "diloco_sums"

    def exchange(self, moved: torch.Tensor) -> None:
        self.worker.fabric.allreduce(moved, op="sum", algorithm="ring")


class FirstCome(DiLoCo):
    """Wrong: it does not say that the order of arrival decides: of the first rank to come it takes double."""

    name = "diloco_first_come"
    requires = frozenset({"any_source"})

    def exchange(self, moved: torch.Tensor) -> None:
        fabric = self.worker.fabric
        if fabric.rank > 0:
            fabric.send(moved, 0)
        else:
            others = [torch.empty_like(moved) for _ in range(1, fabric.size)]
            for other in others:
                fabric.recv(other, ANY_SOURCE)
            moved.add_(sum(others)).add_(others[0] if others else moved).div_(fabric.size + 1)
        fabric.broadcast(moved, 0)


def install(folder: Path) -> None:
    """Leave in a folder, which is to be put on `sys.path`, what an installer leaves of a package with these."""
    info = folder / "diloco-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: diloco\nVersion: 1.0\n")
    classes = [DiLoCo, ForgetsMomentum, ForgetsCommonWeights, Sums, FirstCome]
    lines = [f"{one.name} = {one.__module__}:{one.__name__}" for one in classes]
    (info / "entry_points.txt").write_text("\n".join(["[repro.strategies]", *lines]) + "\n")
