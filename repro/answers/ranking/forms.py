"""Closed forms of a strategy's step on a network; tests compare them with `simulate`, which runs the strategy's code.

Symbols as in `repro.algorithms.timing`. A step is an iteration of the global batch. A form takes a setting, the ranks
and link of the strategy, and the options and name of the strategy that represents it in virtual time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from statistics import fmean

from repro.algorithms.pipeline.layers import Layer
from repro.algorithms.timing.collective_forms import (
    FLOAT32,
    hierarchical_seconds,
    largest_block,
    recursive_doubling,
    ring_encoded,
    ring_seconds,
)
from repro.algorithms.timing.partial_forms import partial_step
from repro.algorithms.timing.sparse_forms import ELEMENT, gtopk_tree, topk_doubling
from repro.algorithms.timing.step_forms import server_step_shared
from repro.answers.ranking import simulate
from repro.answers.ranking.assembled import Options, Step, assemble_step, share_exchange
from repro.answers.ranking.candidates import KINDS, Candidate
from repro.answers.ranking.setting import Place, Setting
from repro.answers.ranking.simulate import SizedBlock
from repro.answers.ranking.stage_forms import least_stages_step, stages_step
from repro.fabric import codecs
from repro.training.buckets import ddp_buckets

MIB = 2**20


def closed_form_step(candidate: Candidate, setting: Setting, least: bool = False) -> Step | None:
    """A candidate's step; None if it is impossible (more stages than layers, matrices unknown, two levels of one).

    least: at once, for a form that takes long (`LEAST`) a lower bound.
    """
    if candidate.link == "two_levels" and not setting.has_two_levels:
        return None
    name, options = candidate.simulated() if candidate.modelled else candidate.own()
    form = FORMS[candidate.form]
    step = (LEAST.get(candidate.form, form) if least else form)(setting, setting.place(candidate), options, name)
    return step and share_exchange(step, setting, candidate.accumulate)


def simulate_seconds(candidate: Candidate, setting: Setting) -> tuple[float, int]:
    """(seconds of the step, messages of the simulation): the closed form, times simulated over closed-form seconds of
    the coarse profile."""
    rough = replace(setting, profile=setting.stages)
    simulated = simulate.simulate_step(candidate, rough)
    whole, part = closed_form_step(candidate, setting), closed_form_step(candidate, rough)
    assert whole and part
    return whole.seconds * simulated.seconds / part.seconds, simulated.messages


def step_seconds(among: Mapping[str, Candidate], setting: Setting, lead: float = math.inf) -> dict[str, float]:
    """The steps' seconds of the possible candidates, in their order; lower bounds for those that are above `lead` times
    the second fastest of every kind that they count for."""
    seconds: dict[str, float] = {}

    def second_of(kind: str) -> float:
        fastest = sorted(each for name, each in seconds.items() if among[name].counts(kind))
        return fastest[1] if len(fastest) > 1 else math.inf

    for name, each in among.items():
        step = closed_form_step(each, setting, least=True)
        if step and each.form in LEAST:
            bound = step.seconds
            if any(bound <= lead * second_of(kind) for kind in KINDS if each.counts(kind)):
                step = closed_form_step(each, setting)
        if step:
            seconds[name] = step.seconds
    return seconds


def allreduce_s(nbytes: int, setting: Setting, place: Place, codec: str) -> float:
    """Seconds of an allreduce of all workers, on the communication thread: a ring, or in two levels."""
    if place.workers == 1:
        return 0.0
    if place.machines:
        bed = setting.testbed
        links = (place.alpha, place.beta), (bed.local_alpha_s, bed.local_beta_s_per_byte)
        gpus = place.workers // place.machines
        return hierarchical_seconds(place.machines, gpus, nbytes, *links, bed.gamma_s_per_byte)
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


def fused_step(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Horovod: at each tick of its cycle it sums all gradients that are ready, as many as its fusion buffer holds.

    A recurrence: a step, from the tick of an iteration's last sum to that of the next one's, depends on the bytes of
    the former alone. So steps repeat as soon as these do, and their mean is the step.
    """
    codec = "truncate16" if options["fp16"] else "none"
    compress = codec_s(setting, codec)
    if place.workers == 1:
        return assemble_step(setting, 0.0, compress=compress)
    layers = [layer for layer in reversed(setting.profile.layers)]
    forward = setting.computation_s - sum(layer.backward_s for layer in layers) + setting.update_s + compress
    ready = list(accumulate((layer.backward_s for layer in layers), initial=forward))[1:]
    every = [(at, round(layer.parameter_bytes)) for at, layer in zip(ready, layers) if layer.parameter_bytes]
    last, steps = 0, dict[int, tuple[float, float]]()  # bytes of the last sum before a step -> (step, all sums)
    order = []
    while last not in steps:
        order.append(last)
        began = allreduce_s(last, setting, place, codec) if last else 0.0
        start = done = began
        total, waiting = 0.0, [(began + at, nbytes) for at, nbytes in every]
        while waiting:
            start, fused, sent = _next_tick(max(done, waiting[0][0]), options["cycle_ms"] / 1e3), 1, waiting[0][1]
            for at, more in waiting[1:]:
                if at > start or sent + more > options["fusion_mb"] * MIB:
                    break
                fused, sent = fused + 1, sent + more
            seconds = allreduce_s(sent, setting, place, codec)
            done, total, waiting, last = start + seconds, total + seconds, waiting[fused:], sent
        steps[order[-1]] = start, total
    repeated = [steps[nbytes] for nbytes in order[order.index(last) :]]
    start, total = (fmean(part) for part in zip(*repeated))
    exposed = start - setting.computation_s - setting.update_s - compress
    return assemble_step(setting, exposed, total - exposed, compress)


def _next_tick(at: float, cycle_s: float) -> float:
    return math.ceil(at / cycle_s) * cycle_s if cycle_s else at


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
    "fused": fused_step,
    "pipelined": pipelined_step,
    "sparse": sparse_step,
    "eager": eager_step,
    "server": server_step,
    "sharded": sharded_step,
    "stages": stages_step,
    "lowrank": lowrank_step,
    "local": local_step,
}
LEAST = {"stages": least_stages_step}
