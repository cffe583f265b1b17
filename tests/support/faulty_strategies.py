"""Strategies with planted faults, installed like a package: the conformance tests must reject each."""

from __future__ import annotations

from pathlib import Path

import torch

from repro.fabric.base import ANY_SOURCE
from repro.strategies.diloco import DiLoCo
from repro.strategies.powersgd import PowerSGD

NEVER = 10**9


class ForgetsMomentum(DiLoCo):
    """Its checkpoints lack the outer momentum."""

    name = "diloco_forgets_momentum"

    def state_dict(self) -> dict:
        return {key: value for key, value in super().state_dict().items() if key != "velocity"}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state | {"velocity": torch.zeros_like(self.velocity)})


class ForgetsCommonWeights(DiLoCo):
    """After a resume it uses this rank's weights as the common ones."""

    name = "diloco_forgets_common_weights"

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.common.copy_(self.worker.model_shard.weights)


class Sums(DiLoCo):
    """It adds the workers' displacements instead of averaging them."""

    name = "diloco_sums"

    def average(self, weights: torch.Tensor) -> None:
        weights.sub_(self.common)
        self.worker.fabric.allreduce(weights, op="sum", algorithm="ring").wait()
        weights.add_(self.common)


class FirstCome(DiLoCo):
    """The first rank to arrive counts double, but it declares itself deterministic."""

    name = "diloco_first_come"
    requires = frozenset({"any_source"})

    def average(self, weights: torch.Tensor) -> None:
        fabric = self.worker.fabric
        if fabric.rank > 0:
            fabric.send(weights, 0)
        else:
            others = [torch.empty_like(weights) for _ in range(1, fabric.size)]
            for other in others:
                fabric.recv(other, ANY_SOURCE)
            weights.add_(sum(others)).add_(others[0] if others else weights).div_(fabric.size + 1)
        fabric.broadcast(weights, 0)


class ForgetsErrors(PowerSGD):
    """Its checkpoints lack the approximation errors."""

    name = "powersgd_forgets_errors"

    def state_dict(self) -> dict:
        return super().state_dict() | {"memory": torch.zeros_like(self.memory)}


class ForgetsFactors(PowerSGD):
    """After a resume its power iteration starts from other vectors."""

    name = "powersgd_forgets_factors"

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state | {"q": self.second.clone()})


class Alone(PowerSGD):
    """It does not communicate."""

    name = "powersgd_alone"

    def summed(self, vector: torch.Tensor) -> torch.Tensor:
        return vector.mul_(self.worker.workers)


WRONG = (ForgetsMomentum, ForgetsCommonWeights, Sums, FirstCome, ForgetsErrors, ForgetsFactors, Alone)


def install(folder: Path) -> None:
    """Write the metadata of an installed package with these strategies into a folder for `sys.path`."""
    info = folder / "faulty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    lines = [f"{one.name} = {one.__module__}:{one.__name__}" for one in WRONG]
    (info / "entry_points.txt").write_text("\n".join(["[repro.strategies]", *lines]) + "\n")
