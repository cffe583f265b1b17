"""Noisy points of a hyperplane, each computed from its number when it is drawn.

Coefficients and points are integers over a common divisor, so that sums are exact in float32 in any order, and a point
has the same label, bit for bit, in every minibatch and on every machine.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
import torch

from repro.data import counter_rng
from repro.data.base import Samples, move_tensor

STEPS = 147.8005  # standard deviation of the odd numbers -255, -253, ..., 255, by which they are divided
LEVELS = 8  # coefficients are -7, -5, ..., 7 divided by it
EXACT = 8192  # products summed in float32: 255 x 7 x 8192 is below 2^24


class HyperplanePoints(Samples):
    """Points (count, dimensions) and their values y (count,), computed when they are drawn.

    coefficients: (dimensions,) float32, integers. part: train or test, with different points and noise.
    """

    task: ClassVar[str] = "regression"
    kind: ClassVar[str] = "vectors"

    def __init__(
        self, count: int, dimensions: int, noise: float, seed: int, part: str, device: torch.device | str = "cpu"
    ):
        self.count, self.dimensions, self.noise, self.seed, self.part = count, dimensions, noise, seed, part
        self._device = torch.device(device)
        self.points, self.noises = (counter_rng.Stream("hyperplane", seed, part, what) for what in ("x", "noise"))
        drawn = counter_rng.Stream("hyperplane", seed, "coefficients").rows([0], dimensions, np.uint8)[0]
        self.coefficients = torch.from_numpy((2 * (drawn % LEVELS).astype(np.float32)) - (LEVELS - 1))

    def __len__(self) -> int:
        return self.count

    @property
    def device(self) -> torch.device:
        return self._device

    @cached_property
    def y(self) -> torch.Tensor:
        """All values (count,) float32. They take a second at full size; training does not need them."""
        if self._device.type == "meta":
            return torch.empty(self.count, device="meta")
        return torch.cat([self.slice(start, start + 1024)[1] for start in range(0, self.count, 1024)])

    def to(self, device: torch.device | str) -> HyperplanePoints:
        if self._device.type == "meta" or torch.device(device) == self._device:
            return self
        return HyperplanePoints(self.count, self.dimensions, self.noise, self.seed, self.part, device)

    def slice(self, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self._points(list(range(start, min(stop, self.count))))

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self._points(rows.tolist())

    def _points(self, numbers: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        if self._device.type == "meta":
            x = torch.empty(len(numbers), self.dimensions, device="meta")
            return x, x[:, 0]
        drawn = self.points.rows(numbers, self.dimensions, np.int8)
        x = torch.from_numpy(drawn).to(torch.float32).mul_(2).add_(1)
        sums = torch.zeros(len(numbers), dtype=torch.float64)
        for at in range(0, self.dimensions, EXACT):
            sums += x[:, at : at + EXACT] @ self.coefficients[at : at + EXACT]
        noise = torch.from_numpy(counter_rng.normal_values(self.noises, numbers))
        y = sums.div_(STEPS * LEVELS).add_(noise, alpha=self.noise).to(torch.float32)
        return move_tensor(x.div_(STEPS), self._device), move_tensor(y, self._device)
