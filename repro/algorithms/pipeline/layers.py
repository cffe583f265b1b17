"""Profiles: the layers of a model with their seconds and bytes, the input of PipeDream's partitioner (section 3.2).

A layer is a block of one of our models. `repro.algorithms.pipeline.profile` reads and writes profile files.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError, unknown

if TYPE_CHECKING:
    import torch
    from torch import nn

SOURCES = ("measured", "estimated", "published")
MOST = 1e18  # seconds or bytes of a layer, so that sums and products stay finite


@dataclass(frozen=True)
class Layer:
    """A layer, for one minibatch.

    forward_s, backward_s  seconds of its passes; the paper's T_l is their sum
    activation_bytes       of its outputs, the paper's a_l, and of their gradients
    parameter_bytes        the paper's w_l
    """

    name: str
    forward_s: float
    backward_s: float
    activation_bytes: float
    parameter_bytes: float

    @property
    def seconds(self) -> float:
        """T_l."""
        return self.forward_s + self.backward_s


@dataclass(frozen=True)
class Profile:
    """The layers of a model, first to last; InputError for impossible values.

    batch        samples of the minibatch; None if a published file does not say
    hardware     the hardware of the measurement or estimate, in words
    source       one of SOURCES
    minibatches  the number timed, after `warmup` others; None if nothing was measured here
    input_bytes  of the minibatch itself
    edges        (layer, a later layer that uses its outputs), counted from 0; None: each layer uses the one before
    """

    model: str
    batch: int | None
    hardware: str
    layers: tuple[Layer, ...]
    minibatches: int | None
    warmup: int | None
    source: str
    input_bytes: float = 0.0
    edges: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not isinstance(self.hardware, str):
            raise InputError("profile: model and hardware must be texts")
        for name, least in (("batch", 1), ("minibatches", 1), ("warmup", 0)):
            if (value := getattr(self, name)) is not None and (type(value) is not int or value < least):
                raise InputError(f"profile of {self.model}: {name}={value}: must be a whole number, {least} or more")
        if not self.layers:
            raise InputError(f"profile of {self.model}: has no layers; must have at least one")
        if self.source not in SOURCES:
            raise unknown("source of a profile", str(self.source), SOURCES)
        _check_number(f"profile of {self.model}: input_bytes", self.input_bytes)
        for layer in self.layers:
            for field in fields(Layer)[1:]:
                _check_number(
                    f"profile of {self.model}: layer '{layer.name}': {field.name}", getattr(layer, field.name)
                )
        for edge in self.edges or ():
            pair = isinstance(edge, tuple) and len(edge) == 2 and all(type(end) is int for end in edge)
            if not pair or not 0 <= edge[0] < edge[1] < len(self.layers):
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


def _check_number(what: str, value: Any) -> None:
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not 0 <= value <= MOST:
        raise InputError(f"{what}={value}: must be a number, 0 or more and at most {MOST:g}")


def as_text(profile: Profile) -> str:
    """A profile as JSON."""
    return json.dumps(asdict(profile), indent=1, allow_nan=False) + "\n"


def tensor_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def parameter_bytes(block: nn.Module) -> int:
    """Bytes of the trainable parameters; frozen ones are neither updated nor synchronised."""
    return sum(tensor_bytes(parameter) for parameter in block.parameters() if parameter.requires_grad)
