"""The setting of a testbed: its device's seconds for a model's blocks, its network and its costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro import data
from repro.algorithms.pipeline import profile as profiles
from repro.algorithms.timing.setting import Setting
from repro.answers.ranking.workload import of_module
from repro.data.base import WORD_KINDS
from repro.models import build_model
from repro.rank.factory import modelled_seconds


def setting_on(
    bed: Any, model: str, options: Mapping[str, Any], dataset: str, batch: int, workers: int, late: float = 0.0
) -> Setting:
    """batch: of one worker; late: as in `Setting`."""
    real = data.load_shapes(dataset)
    blocks = modelled_seconds(model, real.input_shape, real.classes, batch, bed.device, tuple(options.items()))
    built = build_model(model, real.input_shape, real.classes, 0, "meta", **options)
    profile = profiles.estimate_profile(
        built, blocks, profiles.nominal_inputs(built, real.input_shape, batch), "", model
    )
    load = of_module(built, model, batch, real.input_shape, real.kind in WORD_KINDS)
    return Setting(profile, workers, bed, late=late, matrices=load.matrices)
