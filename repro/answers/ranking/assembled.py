"""A step: its seconds, and the parts of which it is the sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from repro.answers.ranking.setting import Setting

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """Seconds of an iteration of the global batch; the phases of a rank's main line add up to it.

    hidden_s: communication during computation. messages: of the whole simulation; 0: a closed form's.
    """

    seconds: float
    phases: Mapping[str, float]
    hidden_s: float = 0.0
    messages: int = 0

    @property
    def load(self) -> float:
        """Communication, hidden or not, over computation."""
        return (self.phases["communication"] + self.hidden_s) / self.phases["computation"]


def share_exchange(step: Step, setting: Setting, minibatches: int) -> Step:
    """The step of a minibatch if the gradients of so many are exchanged at once; a late worker delays no other until
    then."""
    if minibatches == 1:
        return step
    computation, n = setting.computation_s, minibatches
    late = (n - 1) / n * setting.late_s / setting.workers
    parts = {name: part if name == "computation" else part / n for name, part in step.phases.items()}
    parts["late workers"] = parts.get("late workers", 0.0) + late
    return Step(computation + (step.seconds - computation) / n + late, parts, step.hidden_s / n, step.messages)


def assemble_step(
    setting: Setting, exposed: float, hidden: float = 0.0, compress: float = 0.0, late: float | None = None
) -> Step:
    """The step of these parts; exposed, hidden: communication outside and during computation; late: by default all."""
    parts = {
        "computation": setting.computation_s,
        "update": setting.update_s,
        "compression": compress,
        "communication": max(0.0, exposed),
        "late workers": setting.late_s if late is None else late,
    }
    return Step(sum(parts.values()), parts, max(0.0, hidden))
