"""Closed forms of a strategy's step on a network; tests compare them with `simulate`, which runs the strategy's code.

Symbols as in `repro.algorithms.timing`. A step is an iteration of the global batch. A form takes a setting, the ranks
and link of the strategy, and the options and name of the strategy that represents it in virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.pipeline.layout import Layout, StageBlocks
from repro.algorithms.pipeline.partition import Partition, best_partition
from repro.algorithms.pipeline.passes import Op, Plan
from repro.algorithms.timing.collective_forms import (
    FLOAT32,
    largest_block,
    recursive_doubling,
    ring_encoded,
    ring_seconds,
)
from repro.algorithms.timing.partial_forms import partial_step
from repro.algorithms.timing.sparse_forms import ELEMENT, gtopk_tree, topk_doubling
from repro.algorithms.timing.step_forms import flush_s, server_step_shared
from repro.answers.ranking.candidates import Candidate
from repro.answers.ranking.setting import Place, Setting
from repro.answers.ranking.simulate import SizedBlock, Step
from repro.core.errors import InputError
from repro.core.registry import PLUGINS
from repro.fabric import codecs
from repro.training.buckets import ddp_buckets

MIB = 2**20
Options = Mapping[str, Any]


def closed_form_step(candidate: Candidate, setting: Setting) -> Step | None:
    """A candidate's step; None if it is impossible (more stages than layers, matrices unknown)."""
    name, options = candidate.simulated()
    return FORMS[candidate.form](setting, setting.place(candidate), options, name)


def step_seconds(among: Mapping[str, Candidate], setting: Setting) -> dict[str, float]:
    """The steps' seconds of the possible candidates, in their order."""
    return {name: possible.seconds for name, each in among.items() if (possible := closed_form_step(each, setting))}


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


def allreduce_s(nbytes: int, setting: Setting, place: Place, codec: str) -> float:
    """Seconds of a ring of all workers, on the communication thread."""
    if place.workers == 1:
        return 0.0
    if codec != "none":
        return ring_encoded(place.workers, nbytes, place.alpha, place.beta, setting.costs, codecs.make_codec(codec))
    bed = setting.testbed
    return ring_seconds(place.workers, nbytes, place.alpha, place.beta, bed.gamma_s_per_byte, bed.sync_s)


def codec_s(setting: Setting, codec: str) -> float:
    """Seconds of compression and decompression on the computation thread."""
    if codec == "none":
        return 0.0
    costs = setting.costs
    return costs.modelled(f"encode/{codec}", setting.nbytes) + costs.modelled(f"decode/{codec}", setting.nbytes)


def allreduce_step(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Computation, then a ring (Pipe-SGD equation (2))."""
    codec = options["codec"]
    return assemble_step(setting, allreduce_s(setting.nbytes, setting, place, codec), compress=codec_s(setting, codec))


def buckets_step(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Buckets are sent as the backward pass completes them, one ring at a time (`pipe_segmented_limited`, K = 1)."""
    codec = options["codec"]
    compress = codec_s(setting, codec)
    backward = [layer.backward_s for layer in setting.profile.layers]
    compressing = compress / 2 / max(setting.nbytes, 1)  # s/byte
    done = total = 0.0
    sizes = tuple((layer.name, layer.activation_bytes, layer.parameter_bytes) for layer in setting.profile.layers)
    for last, nbytes in _buckets(sizes, options["first_bucket_mb"], options["bucket_mb"]):
        ready = sum(backward[last:]) + compressing * nbytes
        seconds = allreduce_s(nbytes, setting, place, codec)
        done, total = max(done, ready) + seconds, total + seconds
    exposed = max(0.0, done - sum(backward))
    return assemble_step(setting, exposed, total - exposed, compress)


@lru_cache(maxsize=64)
def _buckets(layers: tuple[tuple[str, float, float], ...], first_mb: float, limit_mb: float) -> list[tuple[int, int]]:
    """(the block that completes it, bytes) of each bucket in order; layers: (name, activations, parameters)."""
    blocks = [SizedBlock(Layer(name, 0.0, 0.0, activation, nbytes)) for name, activation, nbytes in layers]
    buckets = ddp_buckets(blocks, first_mb * MIB, limit_mb * MIB)
    return [(min(bucket.trained), FLOAT32 * (bucket.end - bucket.start)) for bucket in buckets]


def pipelined_step(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Pipe-SGD with K = 2: computation or communication, whichever is longer (equation (4)).

    A late worker delays at most every second iteration. The step is the longest of the main line with its own delays,
    uninterrupted communication, and half of a path through a late worker's iteration and an allreduce.
    """
    codec = options["codec"]
    line = setting.computation_s + setting.update_s + codec_s(setting, codec)
    communication = allreduce_s(setting.nbytes, setting, place, codec)
    late = setting.late_s
    seconds = max(line + late / place.workers, communication, (line + late + communication) / 2)
    waited = max(0.0, min(late, seconds - max(line, communication)))
    exposed = seconds - line - waited
    return assemble_step(setting, exposed, communication - max(0.0, exposed), codec_s(setting, codec), waited)


def sparse_step(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Select, exchange and merge, after the backward pass: gTop-k's tree, or Top-k's allgather and sum."""
    bed, p = setting.testbed, place.workers
    k = max(1, round(options["density"] * setting.nbytes / FLOAT32))
    select = setting.costs.modelled(f"select/{options['selection']}", setting.nbytes)
    if p == 1:
        return assemble_step(setting, 0.0, compress=select)
    if name == "gtopk":
        exchange = gtopk_tree(p, k, place.alpha, place.beta, bed.merge_s_per_byte)
    else:
        exchange = topk_doubling(p, k, place.alpha, place.beta) + setting.costs.modelled("sum", p * k * ELEMENT)
    return assemble_step(setting, exchange, compress=select)


def eager_step(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """A partial allreduce by recursive doubling; solo waits for no worker, majority for a random one.

    If one of p workers is late by d, solo continues without it. The late worker finds the result of that round, and
    loses the part of d that exceeds the exchange. In majority all wait for it if it is drawn, once in p iterations.
    """
    p, gamma = place.workers, setting.testbed.gamma_s_per_byte
    if p == 1:
        return assemble_step(setting, 0.0)
    if p & (p - 1):
        line, initiator = setting.computation_s + setting.update_s, name.removeprefix("eager_")
        vector = setting.nbytes * place.beta, setting.nbytes * gamma
        exchange = partial_step(initiator, p, line, place.alpha, *vector) - line
    else:
        exchange = recursive_doubling(p, setting.nbytes, place.alpha, place.beta, gamma)
    alone = max(0.0, setting.late_s - exchange) / p
    late = alone if name == "eager_solo" else setting.late_s / p + (1 - 1 / p) * alone
    return assemble_step(setting, exchange, late=late)


def server_step(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """One server on its own machine, whose network card all workers share (`server_step_shared`).

    A late worker is hidden for as long as the others' gradients fill the card.
    """
    network, (p, n) = (place.alpha, place.beta, setting.testbed.gamma_s_per_byte), (place.workers, setting.nbytes)
    seconds = server_step_shared(p, n, *network, setting.update_s, setting.computation_s)
    late = max(0.0, setting.late_s - (p - 1) * n * place.beta)
    return assemble_step(setting, seconds - setting.update_s - setting.computation_s, late=late)


def sharded_step(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Pull, forward, backward, push. Layer by layer, a layer's forward pass waits only for its own pull, and its push
    begins when its gradient is complete.

    A late worker pulls while it is late. Layer by layer, a worker's delay begins while all still wait for the late
    worker of the iteration before, so it adds to that delay only if it is the same worker: 1 / (2 - 1 / p) of the
    delays count.
    """
    bed, p = setting.testbed, place.workers
    if p == 1 and not place.servers:
        return assemble_step(setting, 0.0)
    moved = 1.0 if place.servers else (p - 1) / p
    layers = setting.profile.layers
    wire = [moved * layer.parameter_bytes * place.beta for layer in layers]
    add = [largest_block(p, round(layer.parameter_bytes)) * (p - 1) * bed.gamma_s_per_byte for layer in layers]
    if options["push"] == "after":
        pull = place.alpha + sum(wire)
        rest = pull + sum(add) / max(len(layers), 1)
        return assemble_step(setting, pull + rest, late=max(0.0, setting.late_s - pull))

    def forward(late: float) -> float:
        arrived, computed = 0.0, late
        for layer, seconds in zip(layers, wire):
            arrived += (2 * place.alpha + seconds) * (seconds > 0)  # a request and its answer
            computed = max(computed, arrived) + layer.forward_s
        return computed

    computed = forward(0.0)
    sent = ready = 0.0
    for layer, seconds in zip(reversed(layers), reversed(wire)):
        ready += layer.backward_s
        sent = max(sent, ready) + seconds
    exposed = computed + sent - setting.computation_s  # the first request waits at the servers, so it takes no time
    late = (forward(setting.late_s) - computed) / (2 - 1 / p)
    return assemble_step(setting, exposed, 2 * sum(wire) - exposed, late=late)


def flush_step(setting: Setting, place: Place, options: Options, name: str) -> Step | None:
    """GPipe and 1F1B with flush: `flush` minibatches, by default one a worker, pass one stage a worker
    (`flush_s`).

    A stage's delay is hidden for as long as the stages before it drain and fill.
    """
    best = _partition(setting.profile, place.workers, place.beta, straight=True)
    if best is None:
        return None
    forward, backward, transfers, updates = _of_stages(setting, best)
    wires = [nbytes * place.beta for nbytes in transfers]
    passes = _passes(best.layout, options["flush"] or place.workers, PLUGINS["strategy"].load(name).schedule)
    seconds = flush_s(passes, forward, backward, wires, place.alpha) + max(updates) * setting.testbed.update_s_per_byte
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
    layout = _partition(setting.profile, place.workers, place.beta, straight=False)
    if layout is None:
        return None
    seconds = place.workers * layout.pipeline_s + setting.update_s
    return assemble_step(setting, seconds - setting.computation_s - setting.update_s)


def stages_of(candidate: Candidate, setting: Setting) -> Sequence[StageBlocks] | None:
    """The stages of a pipeline in this setting; None for other strategies, and if there are too few layers."""
    if candidate.form not in ("flush", "pipedream") or setting.workers == 1:
        return None
    place = setting.place(candidate)
    best = _partition(setting.profile, place.workers, place.beta, straight=candidate.form == "flush")
    return best.layout.stages if best else None


@lru_cache(maxsize=256)
def _partition(profile: Profile, workers: int, beta: float, straight: bool) -> Partition | None:
    try:
        return best_partition(profile, (workers,), (1 / beta,), straight=straight)
    except InputError:
        return None


def _of_stages(setting: Setting, best: Partition) -> tuple[list[float], list[float], list[float], list[float]]:
    """For each stage: seconds forward, seconds backward, bytes sent (not for the last), bytes of parameters."""
    layers = setting.profile.layers
    stages = [layers[stage.first : stage.last + 1] for stage in best.stages]
    return (
        [math.fsum(layer.forward_s for layer in stage) for stage in stages],
        [math.fsum(layer.backward_s for layer in stage) for stage in stages],
        [stage[-1].activation_bytes for stage in stages[:-1]],
        [math.fsum(layer.parameter_bytes for layer in stage) for stage in stages],
    )


def lowrank_step(setting: Setting, place: Place, options: Options, name: str) -> Step | None:
    """PowerSGD: one allreduce of all factors P, with the vectors, and one of all Q, after the backward pass."""
    if setting.matrices is None:
        return None
    rank, costs = options["rank"], setting.costs
    sent = [(n, m, min(n, m, rank)) for n, m in setting.matrices if (n + m) * min(n, m, rank) < n * m]
    whole = setting.nbytes - FLOAT32 * sum(n * m for n, m, _ in sent)
    first, second = (FLOAT32 * sum(pair[side] * pair[2] for pair in sent) for side in (0, 1))
    codec = f"{name}_r{rank}"
    compress = 2 * costs.modelled(f"encode/{codec}", setting.nbytes) + costs.modelled(f"decode/{codec}", setting.nbytes)
    exchange = sum(allreduce_s(round(nbytes), setting, place, "none") for nbytes in (first + whole, second))
    return assemble_step(setting, exchange, compress=compress)


def local_step(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """DiLoCo: an allreduce of the weights every H iterations; between them a late worker delays no other."""
    exposed = allreduce_s(setting.nbytes, setting, place, "none") / options["H"]
    return assemble_step(setting, exposed, late=setting.late_s / place.workers)


FORMS: dict[str, Callable[[Setting, Place, Options, str], Step | None]] = {
    "allreduce": allreduce_step,
    "buckets": buckets_step,
    "pipelined": pipelined_step,
    "sparse": sparse_step,
    "eager": eager_step,
    "server": server_step,
    "sharded": sharded_step,
    "flush": flush_step,
    "pipedream": pipedream_step,
    "lowrank": lowrank_step,
    "local": local_step,
}
