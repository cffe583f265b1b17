"""CAMEL: what it exchanges, and the paper or idea that it is from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from repro.strategies.shared.data_parallel import GradientStrategy


@dataclass
class Options:
    """What `strategy.OPTION=value` sets."""

    wire: Literal["float32", "bfloat16", "float16"] = "float32"


class CAMEL(GradientStrategy):
    """Every worker sends its gradient, in the number format of the option, to every other."""

    name, Options = "NAME", Options

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        """The sum over workers of their gradients (n,); the update takes the mean."""
        phase, fabric = self.worker.clock.phase, self.worker.fabric
        with phase("compress"):
            short = gradient.to(getattr(torch, self.options.wire))
        with phase("communicate"):
            gathered = fabric.allgather(short)
        with phase("compress"):
            return torch.stack([each.float() for each in gathered]).sum(0)
