"""eager-SGD with solo allreduce: the fastest rank starts the round (sections 4.1 and 5)."""

from __future__ import annotations

from repro.fabric.collectives.activation import SOLO
from repro.strategies.shared.eager import Eager


class EagerSolo(Eager):
    """No rank waits for a slower one. Only the delays bound staleness."""

    name, initiator = "eager_solo", SOLO
