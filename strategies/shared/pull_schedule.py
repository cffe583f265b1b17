"""In which batches of layers a worker pulls an iteration's parameters (iBatch, Problem formulation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.algorithms.parameter_server import profiler
from repro.core.errors import InputError


@dataclass(frozen=True)
class PullSchedule:
    """batches  (first, last) layers from 1, both in it, in the order in which they are pulled
    profile     what they were decided from
    """

    profile: PullProfile
    batches: Batches

    @property
    def runs(self) -> list[tuple[int, int]]:
        """The batches with layers counted from 0."""
        return [(first - 1, last - 1) for first, last in self.batches]

    def describe(self) -> dict[str, Any]:
        """Both, and what the paper's equation and the pipeline model say of them."""
        return profiler.described(self.profile, self.batches)

    def state_dict(self) -> dict[str, Any]:
        return {"profile": self.profile.as_dict(), "batches": [list(batch) for batch in self.batches]}

    @staticmethod
    def profile_of(state: Mapping[str, Any]) -> PullProfile:
        """The profile in a state, for a decision as it was: one that is measured again would differ."""
        return PullProfile.parse(state["profile"], "checkpoint")


def check_batches(given: Any, layers: int | None = None) -> None:
    """InputError unless batches follow each other from layer 1 to the last."""
    form = "must be a list of [first, last] layers that follow each other from 1, for instance [[1,5],[6,10],[11,12]]"
    pairs = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    if not pairs or not all(isinstance(one, Sequence) and len(one) == 2 for one in given):
        raise InputError(f"strategy.batches={given}: {form}")
    expected = 1
    for first, last in given:
        whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (first, last))
        if not whole or first != expected or last < first:
            raise InputError(f"strategy.batches={given}: {form}")
        expected = last + 1
    if layers is not None and expected != layers + 1:
        raise InputError(f"strategy.batches={given}: end at layer {expected - 1}, but the model has {layers} layers")
