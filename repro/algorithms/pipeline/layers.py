"""Profiles: the layers of a model with their seconds and bytes, the input of PipeDream's partitioner (section 3.2).

A layer is a block of one of our models. `repro.algorithms.pipeline.profile` reads and writes profile files.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from repro.core.errors import InputError
from repro.core.fields import Count, Whole

if TYPE_CHECKING:
    import torch
    from torch import nn

MOST = 1e18  # seconds or bytes of a layer, so that sums and products stay finite
Amount = Annotated[float, Field(ge=0, le=MOST)]
ENTRIES = ConfigDict(extra="forbid")


@dataclass(frozen=True)
class Layer:
    """A layer, for one minibatch.

    forward_s, backward_s  seconds of its passes; the paper's T_l is their sum
    activation_bytes       of its outputs, the paper's a_l, and of their gradients
    parameter_bytes        the paper's w_l
    """

    __pydantic_config__: ClassVar[ConfigDict] = ENTRIES

    name: str
    forward_s: Amount
    backward_s: Amount
    activation_bytes: Amount
    parameter_bytes: Amount

    @property
    def seconds(self) -> float:
        """T_l."""
        return self.forward_s + self.backward_s


@dataclass(frozen=True)
class Profile:
    """The layers of a model, first to last; InputError for impossible values.

    batch        samples of the minibatch; None if a published file does not print it
    hardware     of the measurement or estimate, in words
    minibatches  the number timed, after `warmup` others; None for a profile that is not measured
    input_bytes  of the minibatch
    edges        (layer, a later layer that uses its outputs), counted from 0; None: each layer uses the one before
    """

    __pydantic_config__: ClassVar[ConfigDict] = ENTRIES

    model: str
    batch: Count | None
    hardware: str
    layers: tuple[Layer, ...]
    minibatches: Count | None
    warmup: Whole | None
    source: Literal["measured", "estimated", "published"]
    input_bytes: Amount = 0.0
    edges: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError(f"profile of {self.model}: has no layers; must have at least one")
        for edge in self.edges or ():
            if not 0 <= edge[0] < edge[1] < len(self.layers):
                raise InputError(
                    f"profile of {self.model}: edge {edge}: must be the numbers of two layers, from 0 to "
                    f"{len(self.layers) - 1}, the used one first and smaller"
                )

    @property
    def uses(self) -> tuple[tuple[int, int], ...]:
        """`edges`, also of a chain."""
        return tuple(pairwise(range(len(self.layers)))) if self.edges is None else self.edges

    @property
    def seconds(self) -> float:
        """Seconds of a minibatch's forward and backward pass through all layers."""
        return math.fsum(layer.seconds for layer in self.layers)


def as_text(profile: Profile) -> str:
    """A profile as JSON."""
    return json.dumps(asdict(profile), indent=1, allow_nan=False) + "\n"


def tensor_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def parameter_bytes(block: nn.Module) -> int:
    """Bytes of the trainable parameters; frozen ones are neither updated nor synchronised."""
    return sum(tensor_bytes(parameter) for parameter in block.parameters() if parameter.requires_grad)
