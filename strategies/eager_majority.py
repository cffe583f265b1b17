"""eager-SGD with majority allreduce: a rank drawn for each round starts it (sections 4.2 and 5)."""

from __future__ import annotations

from repro.fabric.collectives.activation import MAJORITY
from repro.strategies.shared.eager import Eager


class EagerMajority(Eager):
    """On average half of the ranks are there when the drawn one comes; in a single round it may be one, or all.

    The draw is seeded by the run's seed, the same on all ranks.
    """

    name, initiator = "eager_majority", MAJORITY
