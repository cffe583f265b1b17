"""Norms of a run's first updates, which show whether sums of the workers' gradients or weights were divided."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from repro.training.model_shard import ModelShard

GRADIENTS, WEIGHTS = 3, 100  # updates that are compared; weights: more, because local SGD averages them seldom
SAMPLE = 4096  # weights whose norm is taken
LEAST = 1.5  # ratios that tell; rounding and lossy codecs stay far below
CLOSE = 0.05  # of rounding and codecs, relative
REMEDIES = {
    "gradients": "`worker.update(total)` divides by {workers}, or by its `summands`",
    "weights": 'divide the sum of the workers\' weights, or use `fabric.allreduce(weights, op="mean")`',
}


@dataclass
class FirstUpdates:
    """One per rank. Adding a ratio (a 0-dim tensor) reads no value on the host.

    gradients  the norm of the applied gradient by that of the rank's own
    weights    the norm of the weights at the next gradient computation by that after the update: what the strategy
               made of them in between
    """

    gradients: list[torch.Tensor] = field(default_factory=list)
    weights: list[torch.Tensor] = field(default_factory=list)
    after: torch.Tensor | None = None

    def compare_gradient(self, mean: torch.Tensor, shard: ModelShard) -> None:
        """Compare a gradient (n,), before it is applied, with the rank's own; a server, say, has none."""
        if len(self.gradients) == GRADIENTS:
            return
        own = [parameter.grad for parameter in shard.parameters if parameter.grad is not None]
        if len(own) == len(shard.parameters):
            self.gradients.append(mean.norm() / torch.stack([gradient.norm() for gradient in own]).norm())

    def ratios(self) -> dict[str, list[float]]:
        """The ratios of `gradients` and `weights`, one an update; only those that this rank has. Waits for the
        device."""
        return {what: torch.stack(known).tolist() for what in REMEDIES if (known := getattr(self, what))}

    def updated(self, shard: ModelShard) -> None:
        """Note the weights after an update."""
        if len(self.weights) < WEIGHTS:
            self.after = _sample(shard).norm()

    def compare_weights(self, shard: ModelShard) -> None:
        """Compare the weights, before a gradient computation, with those after the update before it, if any."""
        if self.after is not None:
            self.weights.append(_sample(shard).norm() / self.after)
            self.after = None


def _sample(shard: ModelShard) -> torch.Tensor:
    return shard.weights[:: max(1, shard.weights.numel() // SAMPLE)]


def least_sum(workers: int) -> float:
    """The ratio above which, on every rank, a gradient or weights are taken for a sum of the workers' that was not
    divided: no mean is longer than the longest of them, and a sum is up to `workers` times as long."""
    return max(LEAST, workers / 2)


def describe_undivided(of_ranks: Sequence[Mapping[str, Sequence[float]]], workers: int) -> dict[str, str]:
    """A line for each of `gradients` (of all updates) and `weights` (of some update) that look like a sum which was not
    divided. of_ranks: the ratios of each rank (`FirstUpdates.ratios`)."""
    lines = {}
    for what, remedy in REMEDIES.items():
        least = [min(of_update) for of_update in zip(*(rank[what] for rank in of_ranks if what in rank), strict=False)]
        long = [ratio for ratio in least if least_sum(workers) < ratio < math.inf]
        if long and (what == "weights" or len(long) == len(least)):
            lines[what] = (
                f"the first updates are {min(long):.1f} or more times the workers' {what}, as if a sum of {workers} "
                f"were not divided; {remedy.format(workers=workers)}"
            )
    return lines


def describe_divided_twice(of_ranks: Sequence[Mapping[str, Sequence[float]]], workers: int) -> str:
    """How much shorter the updates of workers that compute on the same data are than each worker's gradient; "" if they
    are not, or other than a mean would be that is divided again. of_ranks: as `describe_undivided`."""
    ratios = [ratio for rank in of_ranks for ratio in rank.get("gradients", ())]
    if workers == 1 or not ratios or not all(math.isclose(workers * ratio, 1, rel_tol=CLOSE) for ratio in ratios):
        return ""
    remedy = REMEDIES["gradients"].format(workers=workers)
    return f"the first updates are 1/{workers} of the workers' gradients, as if a mean were divided again; {remedy}"
