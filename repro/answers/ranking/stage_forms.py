"""Closed forms of a pipeline's step: a recursion over its plan (`pipeline_forms`)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from repro.algorithms.pipeline.configuration import Configuration, best_stages
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
from repro.answers.ranking.assembled import Options, Step, assemble_step
from repro.answers.ranking.setting import Place, Setting
from repro.core.errors import InputError
from repro.core.registry import PLUGINS

# iterations of the recursion that are not counted, and that are; with flushes one, after which all are alike
WARMUP = 2


def stages_step(setting: Setting, place: Place, options: Options, name: str) -> Step | None:
    """GPipe, 1F1B with flush, PipeDream."""
    plan = plan_of(setting, place, options, name, 3 * WARMUP)
    if plan is None:
        return None
    iterations = 1 if plan.flush else WARMUP
    seconds, late = pipeline_step(plan, _times(setting, place, plan), place.alpha, iterations, setting.late_s)
    seconds *= place.workers / minibatches_of(plan)
    return assemble_step(setting, seconds - setting.computation_s - setting.update_s, late=late)


def least_stages_step(setting: Setting, place: Place, options: Options, name: str) -> Step | None:
    """About a lower bound of it, in a hundredth of the time: that of stages for the nearest of bandwidths a quarter of
    an octave apart (`least_seconds`)."""
    rounded = replace(place, beta=2 ** (round(4 * math.log2(place.beta)) / 4))
    plan = plan_of(setting, rounded, options, name, 1)
    if plan is None:
        return None
    seconds = least_seconds(plan, _times(setting, place, plan), place.alpha) * place.workers / minibatches_of(plan)
    return assemble_step(setting, seconds - setting.computation_s - setting.update_s, late=0.0)


def plan_of(setting: Setting, place: Place, options: Options, name: str, iterations: int) -> Plan | None:
    """The plan of a pipeline for so many iterations; None if there are too few layers."""
    layout = _layout(setting.stages, place.workers, place.beta, options["config"])
    if layout is None:
        return None
    kind = PLUGINS["strategy"].load(name)
    minibatches = iterations * (options.get("flush") or place.workers)
    return kind(kind.parse(options)).plan(Configuration(layout, "", (), ()), minibatches)


@lru_cache(maxsize=256)
def _layout(profile: Profile, workers: int, beta: float, config: str) -> Layout | None:
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
