"""eager-SGD with majority allreduce: a rank drawn for each round starts it (sections 4.2 and 5)."""

from __future__ import annotations

from typing import Any

from repro.algorithms.timing.partial_forms import eager_exchange
from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, assemble_step
from repro.fabric.collectives.activation import MAJORITY
from repro.strategies.shared.eager import Eager


class EagerMajority(Eager):
    """On average half of the ranks take part in a round, in a single round between one and all.

    All ranks draw the same initiator from the run's seed.
    """

    name, initiator = "eager_majority", MAJORITY

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step:
        """All wait for a late worker if it is drawn, once in p iterations; in the others it is as in solo."""
        p, exchange = place.workers, eager_exchange(cls.initiator, setting, place)
        alone = max(0.0, setting.late_s - exchange) / p
        return assemble_step(setting, exchange, late=setting.late_s / p + (1 - 1 / p) * alone)
