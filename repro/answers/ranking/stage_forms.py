"""Closed forms of a pipeline's step: one stage a worker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from repro.algorithms.pipeline.layers import Profile
from repro.algorithms.pipeline.layout import Layout, StageBlocks
from repro.algorithms.pipeline.partition import Partition, best_partition
from repro.algorithms.pipeline.passes import Op, Plan
from repro.algorithms.timing.step_forms import flush_s
from repro.answers.ranking.assembled import Options, assemble_step
from repro.answers.ranking.candidates import Candidate
from repro.answers.ranking.setting import Place, Setting
from repro.answers.ranking.simulate import Step
from repro.core.errors import InputError
from repro.core.registry import PLUGINS


def flush_step(setting: Setting, place: Place, options: Options, name: str) -> Step | None:
    """GPipe and 1F1B with flush: `flush` minibatches, by default one a worker, pass one stage a worker
    (`flush_s`).

    A stage's delay is hidden for as long as the stages before it drain and fill.
    """
    best = _straight(setting.stages, place)
    if best is None:
        return None
    forward, backward, transfers, updates = _of_stages(setting, best)
    wires = [nbytes * place.beta for nbytes in transfers]
    passes = _passes(best.layout, options["flush"] or place.workers, PLUGINS["strategy"].load(name).schedule)
    seconds = flush_s(passes, forward, backward, wires, place.alpha) + updates[0] * setting.testbed.update_s_per_byte
    idle = accumulate(
        (work + back + 2 * (place.alpha + wire) for work, back, wire in zip(forward, backward, wires)), initial=0
    )
    late = math.fsum(max(0.0, setting.late_s - idle_s) for idle_s in idle) / len(forward)
    return assemble_step(setting, seconds - setting.computation_s - setting.update_s, late=late)


@lru_cache(maxsize=64)
def _passes(layout: Layout, minibatches: int, schedule: str) -> list[list[Op]]:
    """Each stage's passes of a flush, in order."""
    plan = Plan(layout, minibatches, schedule, flush=minibatches)
    return [list(plan.ops(stage, 0)) for stage in range(len(layout.stages))]


def pipedream_step(setting: Setting, place: Place, options: Options, name: str) -> Step | None:
    """1F1B without a flush: the slowest stage's seconds a minibatch, by PipeDream's own cost model (section 3.2)."""
    layout = _partition(setting.stages, place.workers, place.beta, False)
    if layout is None:
        return None
    seconds = place.workers * layout.pipeline_s + setting.update_s
    return assemble_step(setting, seconds - setting.computation_s - setting.update_s)


def stages_of(candidate: Candidate, setting: Setting) -> Sequence[StageBlocks] | None:
    """The stages of a pipeline in this setting; None for other strategies, and if there are too few layers."""
    if candidate.form not in ("flush", "pipedream") or setting.workers == 1:
        return None
    place = setting.place(candidate)
    profile = setting.stages
    flushes = candidate.form == "flush"
    best = _straight(profile, place) if flushes else _partition(profile, place.workers, place.beta, False)
    return best.layout.stages if best else None


def _straight(profile: Profile, place: Place) -> Partition | None:
    """Stages of a rank each, cut for the nearest of bandwidths a quarter of an octave apart."""
    return _partition(profile, place.workers, 2 ** (round(4 * math.log2(place.beta)) / 4), True)


@lru_cache(maxsize=256)
def _partition(profile: Profile, workers: int, beta: float, straight: bool) -> Partition | None:
    try:
        return best_partition(profile, (workers,), (1 / beta,), straight=straight)
    except InputError:
        return None


def _of_stages(setting: Setting, best: Partition) -> tuple[list[float], list[float], list[float], list[float]]:
    """For each stage: seconds forward, seconds backward, bytes sent (not for the last), bytes of parameters."""
    layers = setting.stages.layers
    stages = [layers[stage.first : stage.last + 1] for stage in best.stages]
    return (
        [math.fsum(layer.forward_s for layer in stage) for stage in stages],
        [math.fsum(layer.backward_s for layer in stage) for stage in stages],
        [stage[-1].activation_bytes for stage in stages[:-1]],
        [math.fsum(layer.parameter_bytes for layer in stage) for stage in stages],
    )
