"""eager-SGD with solo allreduce: the fastest rank starts the round (sections 4.1 and 5)."""

from __future__ import annotations

from typing import Any

from repro.algorithms.timing.partial_forms import eager_exchange
from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, assemble_step
from repro.fabric.collectives.activation import SOLO
from repro.strategies.shared.eager import Eager


class EagerSolo(Eager):
    """No rank waits for a slower one. Only the delays bound staleness."""

    name, initiator = "eager_solo", SOLO

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step:
        """If one of p workers is late by d, the others go on without it. It finds the result of that round, and loses
        the part of d that exceeds the exchange."""
        exchange = eager_exchange(cls.initiator, setting, place)
        return assemble_step(setting, exchange, late=max(0.0, setting.late_s - exchange) / place.workers)
