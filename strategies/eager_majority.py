"""eager-SGD with majority allreduce: a rank drawn for each round starts it (sections 4.2 and 5)."""

from __future__ import annotations

from repro.fabric.collectives.activation import MAJORITY
from repro.strategies.shared.eager import Eager


class EagerMajority(Eager):
    """On average half of the ranks take part in a round, in a single round between one and all.

    All ranks draw the same initiator from the run's seed.
    """

    name, initiator = "eager_majority", MAJORITY
