"""What a stretch of computation costs in seconds: constants of a testbed, or nothing known where time is real."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Costs:
    """Seconds of each kind of work, for virtual time; on a real fabric nothing is known and everything is None.

    Kinds counted in bytes of float32 data: "reduce" (gamma of Pipe-SGD equation (5)), "encode", "decode", "update".
    Kinds counted in seconds: "forward", "backward" (already computed per block by `repro.training.device_times`),
    "sync" (S of equation (5), once an allreduce), "startup" (before each pull from a parameter server: T_s of iBatch,
    less the network's alpha).
    """

    known: bool = False
    seconds_per_byte: Mapping[str, float] = field(default_factory=dict)
    fixed_seconds: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, kind: str, nbytes: float = 0) -> float | None:
        """fixed + per byte x nbytes; None where time is real."""
        return self.modelled(kind, nbytes) if self.known else None

    def modelled(self, kind: str, nbytes: float = 0) -> float:
        """The same for whoever has asked whether costs are known, and for closed forms."""
        return self.fixed_seconds.get(kind, 0.0) + self.seconds_per_byte.get(kind, 0.0) * nbytes


REAL_TIME = Costs()
