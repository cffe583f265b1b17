"""CAMEL: describe the exchange, and cite its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from repro.strategies.shared.data_parallel import GradientStrategy


@dataclass
class Options:
    """Set by `strategy.OPTION=value`."""

    wire: Literal["float32", "bfloat16", "float16"] = "float32"


class CAMEL(GradientStrategy):
    """Every worker sends its gradient to all others, in the number format of option `wire`."""

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
