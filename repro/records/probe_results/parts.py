"""What the results of several probes have in them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Found(BaseModel):
    """A part of a result. Times are in seconds, sizes in bytes, where a field does not say otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Result(Found):
    """All that a program finds."""

    def __init_subclass__(cls, program: str, **others: Any) -> None:
        super().__init_subclass__(**others)
        RESULTS[program] = cls


RESULTS: dict[str, type[Result]] = {}  # by program


class Spread(Found):
    """Of a measurement's repetitions."""

    median: float
    min: float
    max: float


class Point(Found):
    """Messages of one size, and the time of the fitted model (s)."""

    bytes: int
    seconds: float
    min: float
    max: float
    fitted_s: float


class Communication(Found):
    """Of a step (s): on the main line, and hidden behind computation."""

    total_s: float
    exposed_s: float
    overlapped_s: float


class Steps(Found):
    """Steps of a strategy in the steady state; phases (s) are means over the workers."""

    steps: int
    observed_s: Spread
    phases: dict[str, float]
    communication: Communication


class Computation(Found):
    """Of a step without communication (s), on the slowest rank.

    first_segment_backward_s: number of buckets -> until the gradients of the first one to be sent are there.
    """

    forward_s: float
    backward_s: float
    update_s: float
    data_s: float
    other_s: float
    first_segment_backward_s: dict[str, float]
