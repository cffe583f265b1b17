"""A step as the sum of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.answers.ranking.setting import Setting
from repro.answers.ranking.simulate import Step

Options = Mapping[str, Any]


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
