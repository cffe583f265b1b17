"""eager-SGD with solo allreduce: whoever is first starts the round (sections 4.1 and 5)."""

from __future__ import annotations

from repro.fabric.collectives.activation import SOLO
from repro.strategies.shared.eager import Eager


class EagerSolo(Eager):
    """Nobody ever waits for a slower rank. No bound on staleness but the one that the delays have."""

    name, initiator = "eager_solo", SOLO
