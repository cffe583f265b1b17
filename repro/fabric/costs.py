"""Durations of computation in virtual time, from a testbed's constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Costs:
    """Seconds of each kind of work, for virtual time; in real time (known=False) every duration is None.

    In proportion to bytes of float32 data: "reduce" (gamma of Pipe-SGD equation (5)), "encode", "decode", "update".
    Fixed: "forward", "backward" (computed for each block by `repro.training.device_times`), "sync" (S of equation (5),
    once for each allreduce), "startup" (before each pull from a parameter server: T_s of iBatch minus the network's
    alpha).
    pull_threads: of a parameter server's client, which share a pull's startups, one a server; None: a pull has one.
    """

    known: bool = False
    seconds_per_byte: Mapping[str, float] = field(default_factory=dict)
    fixed_seconds: Mapping[str, float] = field(default_factory=dict)
    pull_threads: int | None = None

    def seconds(self, kind: str, nbytes: float = 0) -> float | None:
        """The fixed part plus the part in proportion to `nbytes`; None in real time."""
        return self.modelled(kind, nbytes) if self.known else None

    def modelled(self, kind: str, nbytes: float = 0) -> float:
        """As `seconds`, for callers that have checked `known`, and for closed forms."""
        return self.fixed_seconds.get(kind, 0.0) + self.seconds_per_byte.get(kind, 0.0) * nbytes


REAL_TIME = Costs()
