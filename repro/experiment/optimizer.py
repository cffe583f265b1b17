"""The configuration's part `optimizer`: the update rule and its learning-rate schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from repro.core.errors import InputError
from repro.core.fields import Model, NonNegative, Positive

Beta = Annotated[float, Field(ge=0, lt=1)]
ENDING = ("cosine", "polynomial")  # schedules whose rate is 0 at the end


def _pair(values: list[float]) -> list[float]:
    if len(values) != 2:
        raise ValueError("must be two numbers, as [0.9,0.999]")
    return values


@dataclass(frozen=True)
class OnlyWith:
    """On an entry: it has an effect only where another entry has one of these values."""

    entry: str
    values: tuple[str, ...]


class Optimizer(Model):
    """`paper_configs/config.yaml` describes the entries; milestones, every, over and warmup are in epochs.

    The defaults, SGD at a constant rate, never change: values at their defaults are not in a run's key.
    """

    part = "optimizer"

    lr: NonNegative
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    weight_decay: NonNegative = 0.0
    # inverse_sqrt and inverse: of the proofs that Pipe-SGD 3.3 adapts (its reference [23], Langford et al., NIPS 2009)
    schedule: Literal["constant", "inverse_sqrt", "inverse", "step", "exponential", "cosine", "polynomial"] = "constant"
    milestones: Annotated[list[Positive], OnlyWith("schedule", ("step",))] = Field(default_factory=list)
    decay: Annotated[float, Field(gt=0, le=1), OnlyWith("schedule", ("step", "exponential"))] = 0.1
    warmup: list[Positive] = Field(default_factory=list)
    clip_norm: Positive | None = None
    name: Literal["sgd", "rmsprop", "adamw"] = "sgd"
    alpha: Annotated[float, Field(ge=0, lt=1), OnlyWith("name", ("rmsprop",))] = 0.99
    eps: Annotated[Positive, OnlyWith("name", ("rmsprop", "adamw"))] = 1e-8
    every: Annotated[Positive | None, OnlyWith("schedule", ("exponential",))] = None
    over: Annotated[Positive | None, OnlyWith("schedule", ENDING)] = None
    power: Annotated[Positive, OnlyWith("schedule", ("polynomial",))] = 1.0
    betas: Annotated[list[Beta], AfterValidator(_pair), OnlyWith("name", ("adamw",))] = Field(
        default_factory=lambda: [0.9, 0.999]
    )

    @model_validator(mode="after")
    def _fits(self) -> Optimizer:
        if any(low >= high for low, high in pairwise(self.milestones)):
            raise InputError(f"optimizer.milestones={self.milestones}: must be epochs, each above the one before")
        if self.schedule == "step" and not self.milestones:
            raise InputError("optimizer.milestones=[]: schedule=step needs at least one epoch, for instance [10,20]")
        if self.schedule == "exponential" and self.every is None:
            raise InputError("optimizer.every=null: schedule=exponential needs a number of epochs, for instance 2")
        if self.name == "adamw" and self.momentum:
            raise InputError(f"optimizer.momentum={self.momentum:g}: adamw has optimizer.betas instead; must be 0")
        return self

    def within(self, epochs: float) -> Optimizer:
        """The optimizer for a run of `epochs`: there a cosine or polynomial schedule ends, unless `over` is set."""
        ends = self.schedule in ENDING
        return self.model_copy(update={"over": epochs}) if ends and self.over is None else self


def effective_optimizer(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    """A configured optimizer without options that have no effect, the name of plain SGD and a constant schedule."""
    plain = {name: Optimizer.model_fields[name].default for name in ("name", "schedule")}
    complete = {**plain, **optimizer}

    def has_effect(name: str) -> bool:
        field = Optimizer.model_fields.get(name)
        conditions = [entry for entry in (field.metadata if field else ()) if isinstance(entry, OnlyWith)]
        return all(complete[condition.entry] in condition.values for condition in conditions)

    return {
        name: value
        for name, value in optimizer.items()
        if value not in (None, [], plain.get(name)) and has_effect(name)
    }
