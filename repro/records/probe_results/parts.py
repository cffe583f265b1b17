"""Parts of probe results that several probes share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class ResultPart(BaseModel):
    """A part of a result; times are in seconds and sizes in bytes, unless a field says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Result(ResultPart):
    """The complete result of a program."""

    def __init_subclass__(cls, program: str, **others: Any) -> None:
        super().__init_subclass__(**others)
        RESULTS[program] = cls


RESULTS: dict[str, type[Result]] = {}  # by program


class Spread(ResultPart):
    """Statistics over repetitions of a measurement."""

    median: float
    min: float
    max: float


class Point(ResultPart):
    """Times of messages of one size, and the fitted model's time (s)."""

    bytes: int
    seconds: float
    min: float
    max: float
    fitted_s: float


class Communication(ResultPart):
    """Communication of a step (s); exposed: on the main thread; overlapped: hidden behind computation."""

    total_s: float
    exposed_s: float
    overlapped_s: float


class Steps(ResultPart):
    """Steps of a strategy in the steady state; phases (s) are means over the workers."""

    steps: int
    observed_s: Spread
    phases: dict[str, float]
    communication: Communication


class Computation(ResultPart):
    """Computation of a step (s) on the slowest rank.

    first_segment_backward_s: number of buckets -> time until the gradients of the first bucket to be sent are complete.
    """

    forward_s: float
    backward_s: float
    update_s: float
    data_s: float
    other_s: float
    first_segment_backward_s: dict[str, float]
