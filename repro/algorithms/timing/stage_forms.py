"""Closed forms of a pipeline's step: a recursion over its plan (`pipeline_forms`)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from repro.algorithms.pipeline.configuration import best_stages
from repro.algorithms.pipeline.layers import Profile
from repro.algorithms.pipeline.layout import Layout
from repro.algorithms.pipeline.passes import Plan
from repro.algorithms.timing.collective_forms import largest_block
from repro.algorithms.timing.pipeline_forms import (
    StageTimes,
    least_seconds,
    minibatches_of,
    pipeline_step,
    split_blocks,
)
from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, assemble_step
from repro.core.errors import InputError

# iterations of the recursion that are not counted, and that are; with flushes one, after which all are alike
WARMUP = 2
ITERATIONS = 3 * WARMUP  # of a plan that is long enough


def stages_step(setting: Setting, place: Place, plan: Plan) -> Step:
    """The step of a plan of at least `ITERATIONS`."""
    iterations = 1 if plan.flush else WARMUP
    seconds, late = pipeline_step(plan, _times(setting, place, plan), place.alpha, iterations, setting.late_s)
    seconds *= place.workers / minibatches_of(plan)
    return assemble_step(setting, seconds - setting.computation_s - setting.update_s, late=late)


def least_stages_step(setting: Setting, place: Place, plan: Plan) -> Step:
    """A lower bound of it (`least_seconds`), in a hundredth of the time."""
    seconds = least_seconds(plan, _times(setting, place, plan), place.alpha) * place.workers / minibatches_of(plan)
    step = assemble_step(setting, seconds - setting.computation_s - setting.update_s, late=0.0)
    return replace(step, bound=True)


def stages_in(setting: Setting, place: Place, config: str, rounded: bool = False) -> Layout | None:
    """The best stages of a setting; None if there are too few layers. Only computation over bandwidth decides them.

    rounded: those of the nearest of bandwidths a quarter of an octave apart, which are soon known.
    """
    beta = place.beta / setting.factor
    return cut_stages(setting.uncut, place.workers, 2 ** (round(4 * math.log2(beta)) / 4) if rounded else beta, config)


@lru_cache(maxsize=256)
def cut_stages(profile: Profile, workers: int, beta: float, config: str) -> Layout | None:
    """The best stages; None if there are too few layers."""
    try:
        return best_stages(profile, workers, 1 / beta, config).layout
    except InputError:
        return None


def _times(setting: Setting, place: Place, plan: Plan) -> list[StageTimes]:
    bed, times = setting.testbed, []
    for stage in plan.layout.stages:
        layers = setting.stages.layers[stage.first : stage.last + 1]
        nbytes = [round(layer.parameter_bytes) for layer in reversed(layers)]
        parts = [(stage.replicas - 1) * largest_block(stage.replicas, each) for each in nbytes if each]
        times.append(
            StageTimes(
                forward=math.fsum(layer.forward_s for layer in layers),
                backward=tuple(split_blocks((layer.backward_s for layer in reversed(layers)), map(bool, nbytes))),
                sums=tuple((part * place.beta, part * bed.gamma_s_per_byte) for part in parts if part),
                send=layers[-1].activation_bytes * place.beta,
                update=sum(nbytes) * bed.update_s_per_byte,
            )
        )
    return times
