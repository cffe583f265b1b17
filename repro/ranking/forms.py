"""Closed forms of a strategy's step on a network; `simulate` runs its code, and tests hold one against the other.

Symbols as in `repro.algorithms.timing`. A step is an iteration of the global batch. A worker that is late by d holds up
all others where all wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.pipeline.layout import StageBlocks
from repro.algorithms.pipeline.partition import Partition, partition
from repro.algorithms.timing.collective_forms import FLOAT32, largest_block, recursive_doubling, ring, ring_encoded
from repro.algorithms.timing.sparse_forms import ELEMENT, gtopk_tree, topk_doubling
from repro.algorithms.timing.step_forms import server_step
from repro.core.errors import InputError
from repro.fabric import codecs
from repro.ranking.candidates import Candidate
from repro.ranking.setting import Place, Setting
from repro.ranking.simulate import SizedBlock, Step
from repro.training.buckets import ddp_buckets

MIB = 2**20
Options = Mapping[str, Any]


def step(candidate: Candidate, setting: Setting) -> Step | None:
    """None where the strategy cannot be: more stages than layers."""
    name, options = candidate.simulated()
    return FORMS[candidate.form](setting, setting.place(candidate), options, name)


def seconds(among: Mapping[str, Candidate], setting: Setting) -> dict[str, float]:
    """Of the candidates that can be, in their order."""
    return {name: found.seconds for name, one in among.items() if (found := step(one, setting))}


def made(
    setting: Setting, exposed: float, hidden: float = 0.0, compress: float = 0.0, late: float | None = None
) -> Step:
    """The parts of a step: computation, update, compression, communication that is waited for, and late workers."""
    update = setting.nbytes * setting.testbed.update_s_per_byte
    parts = {
        "computation": setting.computation_s,
        "update": update,
        "compression": compress,
        "communication": max(0.0, exposed),
        "late workers": setting.late_s if late is None else late,
    }
    return Step(sum(parts.values()), parts, max(0.0, hidden))


def allreduce_s(nbytes: int, setting: Setting, place: Place, codec: str) -> float:
    """A ring of all workers, on the communication thread."""
    if place.workers == 1:
        return 0.0
    if codec != "none":
        return ring_encoded(place.workers, nbytes, place.alpha, place.beta, setting.costs, codecs.codec(codec))
    bed = setting.testbed
    return ring(place.workers, nbytes, place.alpha, place.beta, bed.gamma_s_per_byte, bed.sync_s)


def codec_s(setting: Setting, codec: str) -> float:
    """Compression and decompression on the computation thread."""
    if codec == "none":
        return 0.0
    costs = setting.costs
    return costs.modelled(f"encode/{codec}", setting.nbytes) + costs.modelled(f"decode/{codec}", setting.nbytes)


def allreduce(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Computation, then a ring (Pipe-SGD equation (2))."""
    codec = options["codec"]
    return made(setting, allreduce_s(setting.nbytes, setting, place, codec), compress=codec_s(setting, codec))


def buckets(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Buckets leave as the backward pass completes them; their rings take turns (`pipe_segmented_limited`, K = 1)."""
    codec = options["codec"]
    compress = codec_s(setting, codec)
    backward = [layer.backward_s for layer in setting.profile.layers]
    compressing = compress / 2 / max(setting.nbytes, 1)  # s/byte
    done = total = 0.0
    for last, nbytes in _buckets(tuple(setting.profile.layers), options["first_bucket_mb"], options["bucket_mb"]):
        ready = sum(backward[last:]) + compressing * nbytes
        seconds = allreduce_s(nbytes, setting, place, codec)
        done, total = max(done, ready) + seconds, total + seconds
    exposed = max(0.0, done - sum(backward))
    return made(setting, exposed, total - exposed, compress)


@lru_cache(maxsize=64)
def _sizes(layers: tuple[tuple[str, float, float], ...], first_mb: float, limit_mb: float) -> list[tuple[int, int]]:
    blocks = [SizedBlock(Layer(name, 0.0, 0.0, activation, nbytes)) for name, activation, nbytes in layers]
    found = ddp_buckets(blocks, first_mb * MIB, limit_mb * MIB)
    return [(min(bucket.trained), FLOAT32 * (bucket.end - bucket.start)) for bucket in found]


def _buckets(layers: tuple[Layer, ...], first_mb: float, limit_mb: float) -> list[tuple[int, int]]:
    """(the block whose gradient completes it, bytes) of each, in order."""
    return _sizes(tuple((one.name, one.activation_bytes, one.parameter_bytes) for one in layers), first_mb, limit_mb)


def pipelined(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Pipe-SGD with K = 2: computation or communication, whichever is longer (equation (4)).

    A late worker holds up at most every second iteration: T is the heaviest of the main line with its own delays, of
    communication without a pause, and of a detour over a late worker and an allreduce in two iterations.
    """
    codec = options["codec"]
    update = setting.nbytes * setting.testbed.update_s_per_byte
    line = setting.computation_s + update + codec_s(setting, codec)
    communication = allreduce_s(setting.nbytes, setting, place, codec)
    late = setting.late_s
    seconds = max(line + late / place.workers, communication, (line + late + communication) / 2)
    waited = max(0.0, min(late, seconds - max(line, communication)))
    exposed = seconds - line - waited
    return made(setting, exposed, communication - max(0.0, exposed), codec_s(setting, codec), waited)


def sparse(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Select, exchange and merge, after the backward pass: gTop-k's tree, or Top-k's allgather and sum."""
    bed, p = setting.testbed, place.workers
    k = max(1, round(options["density"] * setting.nbytes / FLOAT32))
    select = setting.costs.modelled(f"select/{options['selection']}", setting.nbytes)
    if p == 1:
        return made(setting, 0.0, compress=select)
    if name == "gtopk":
        exchange = gtopk_tree(p, k, place.alpha, place.beta, bed.merge_s_per_byte)
    else:
        exchange = topk_doubling(p, k, place.alpha, place.beta) + setting.costs.modelled("sum", p * k * ELEMENT)
    return made(setting, exchange, compress=select)


def eager(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """A partial allreduce by recursive doubling; solo waits for nobody, majority for a random worker.

    Where one of p is late by d, solo goes on without it; it finds that round's result when it comes, and has lost
    what of d is longer than the exchange. In majority all wait for it if it was drawn, once in p iterations.
    """
    p = place.workers
    if p == 1:
        return made(setting, 0.0)
    exchange = recursive_doubling(p, setting.nbytes, place.alpha, place.beta, setting.testbed.gamma_s_per_byte)
    alone = max(0.0, setting.late_s - exchange) / p
    late = alone if name == "eager_solo" else setting.late_s / p + (1 - 1 / p) * alone
    return made(setting, exchange, late=late)


def server(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """One server on a machine of its own (`server_step`); its network card serves one worker after another."""
    bed, p = setting.testbed, place.workers
    update = setting.nbytes * bed.update_s_per_byte
    seconds = server_step(
        p, setting.nbytes, place.alpha, place.beta, bed.gamma_s_per_byte, update, setting.computation_s
    )
    return made(setting, seconds - update - setting.computation_s)


def sharded(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """Pull, forward, backward, push; layer by layer a layer's forward pass waits for its own pull alone, and its push
    leaves as soon as its gradient is there.

    A late worker pulls while it is late. Layer by layer another one's delay begins while all wait for the first: of two
    iterations in a row the second adds its delay only where the same worker is late again, so that 1 / (2 - 1 / p) of
    the delays count.
    """
    bed, p = setting.testbed, place.workers
    if p == 1 and not place.servers:
        return made(setting, 0.0)
    moved = 1.0 if place.servers else (p - 1) / p
    layers = setting.profile.layers
    wire = [moved * layer.parameter_bytes * place.beta for layer in layers]
    add = [largest_block(p, round(layer.parameter_bytes)) * (p - 1) * bed.gamma_s_per_byte for layer in layers]
    if options["push"] == "after":
        pull = place.alpha + sum(wire)
        rest = pull + place.alpha + sum(add) / max(len(layers), 1)
        return made(setting, pull + rest, late=max(0.0, setting.late_s - pull))

    def forward(late: float) -> float:
        arrived, computed = place.alpha, max(place.alpha, late)
        for layer, seconds in zip(layers, wire):
            arrived += seconds
            computed = max(computed, arrived + place.alpha if seconds else computed) + layer.forward_s
        return computed

    computed = forward(0.0)
    sent = ready = 0.0
    for layer, seconds in zip(reversed(layers), reversed(wire)):
        ready += layer.backward_s
        sent = max(sent, ready) + seconds
    exposed = computed + sent + 2 * place.alpha - setting.computation_s
    late = (forward(setting.late_s) - computed) / (2 - 1 / p)
    return made(setting, exposed, 2 * sum(wire) - exposed, late=late)


def flush(setting: Setting, place: Place, options: Options, name: str) -> Step | None:
    """GPipe and 1F1B with flush: `flush` minibatches, by default one a worker, fill and drain one stage a worker.

    Each half takes what the first minibatch needs through all stages, and the slowest stage or transfer for each other.
    A late stage has as long as the stages before it drain and fill.
    """
    found = _partition(setting.profile, place.workers, place.beta, straight=True)
    if found is None:
        return None
    forward, backward, transfers, updates = _of_stages(setting, found)
    m, alpha = options["flush"] or place.workers, place.alpha
    wires = [nbytes * place.beta for nbytes in transfers]
    half = [
        sum(work) + sum(alpha + wire for wire in wires) + (m - 1) * max([*work, *wires]) for work in (forward, backward)
    ]
    seconds = sum(half) + max(updates) * setting.testbed.update_s_per_byte
    update = setting.nbytes * setting.testbed.update_s_per_byte
    idle = accumulate(
        (work + back + 2 * (alpha + wire) for work, back, wire in zip(forward, backward, wires)), initial=0
    )
    late = math.fsum(max(0.0, setting.late_s - own) for own in idle) / len(forward)
    return made(setting, seconds - setting.computation_s - update, late=late)


def pipedream(setting: Setting, place: Place, options: Options, name: str) -> Step | None:
    """1F1B without a flush: the slowest stage's seconds a minibatch, by PipeDream's own cost model (section 3.2)."""
    found = _partition(setting.profile, place.workers, place.beta, straight=False)
    if found is None:
        return None
    update = setting.nbytes * setting.testbed.update_s_per_byte
    seconds = place.workers * found.pipeline_s + update
    return made(setting, seconds - setting.computation_s - update)


def stages_of(candidate: Candidate, setting: Setting) -> Sequence[StageBlocks] | None:
    """The stages of a pipeline in this setting; None for what is none, or cannot be."""
    if candidate.form not in ("flush", "pipedream") or setting.workers == 1:
        return None
    place = setting.place(candidate)
    found = _partition(setting.profile, place.workers, place.beta, straight=candidate.form == "flush")
    return found.layout.stages if found else None


@lru_cache(maxsize=256)
def _partition(profile: Profile, workers: int, beta: float, straight: bool) -> Partition | None:
    try:
        return partition(profile, (workers,), (1 / beta,), straight=straight)
    except InputError:
        return None


def _of_stages(setting: Setting, found: Partition) -> tuple[list[float], list[float], list[float], list[float]]:
    """Of each stage seconds forward and backward, bytes out (but of the last), and bytes of parameters."""
    layers = setting.profile.layers
    runs = [layers[stage.first : stage.last + 1] for stage in found.stages]
    return (
        [math.fsum(one.forward_s for one in run) for run in runs],
        [math.fsum(one.backward_s for one in run) for run in runs],
        [run[-1].activation_bytes for run in runs[:-1]],
        [math.fsum(one.parameter_bytes for one in run) for run in runs],
    )


def lowrank(setting: Setting, place: Place, options: Options, name: str) -> Step | None:
    """PowerSGD: factors P and Q of each matrix, one allreduce each, after the backward pass; vectors go with P."""
    if setting.matrices is None:
        return None
    rank, costs = options["rank"], setting.costs
    sent = [(n, m, min(n, m, rank)) for n, m in setting.matrices if (n + m) * min(n, m, rank) < n * m]
    whole = setting.nbytes - FLOAT32 * sum(n * m for n, m, _ in sent)
    first, second = (FLOAT32 * sum(pair[side] * pair[2] for pair in sent) for side in (0, 1))
    codec = f"{name}_r{rank}"
    compress = 2 * costs.modelled(f"encode/{codec}", setting.nbytes) + costs.modelled(f"decode/{codec}", setting.nbytes)
    exchange = sum(allreduce_s(round(nbytes), setting, place, "none") for nbytes in (first + whole, second))
    return made(setting, exchange, compress=compress)


def local(setting: Setting, place: Place, options: Options, name: str) -> Step:
    """DiLoCo: an allreduce of the weights every H iterations; a late worker holds up nobody between."""
    inner = options["H"]
    late = setting.late_s / place.workers
    return made(setting, allreduce_s(setting.nbytes, setting, place, "none") / inner, late=late)


FORMS: dict[str, Callable[[Setting, Place, Options, str], Step | None]] = {
    "allreduce": allreduce,
    "buckets": buckets,
    "pipelined": pipelined,
    "sparse": sparse,
    "eager": eager,
    "server": server,
    "sharded": sharded,
    "flush": flush,
    "pipedream": pipedream,
    "lowrank": lowrank,
    "local": local,
}
