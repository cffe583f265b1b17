"""What equations (2), (4), (5), (6) and (7) of Pipe-SGD say of a strategy's step, from separate measurements alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.algorithms.timing import collective_forms, step_forms
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.errors import InputError, unknown
from repro.fabric.codecs import Codec, codec
from repro.fabric.collectives.compressed import RINGS
from repro.probes.shared.computation import Compute
from repro.probes.shared.fabric_model import FabricModel


@dataclass(frozen=True)
class Prediction:
    """Seconds a step in steady state.

    printed: of the equation exactly as the paper prints it, None where it has none: n/p taken as it is, n the bytes on
    the wire, no codec work anywhere. terms: l_up has decompression in it, l_comp compression.
    """

    seconds: float
    equation: str
    printed: float | None
    terms: dict[str, float]


@dataclass(frozen=True)
class Basis:
    """What is predicted from: p workers, the bytes of the gradient's L buckets in the order of communication."""

    p: int
    buckets: Mapping[int, Sequence[int]]
    fabric: FabricModel
    compute: Compute

    @property
    def gradient_bytes(self) -> int:
        return sum(next(iter(self.buckets.values())))


def check(name: str, options: Any) -> None:
    """InputError for a variant that nothing here predicts."""
    if name not in PREDICTIONS:
        raise unknown("strategy of a timing model", name, PREDICTIONS)
    if name != "ps_sync" and options.algorithm not in RINGS:
        raise InputError(
            f"probe.strategies: algorithm '{options.algorithm}' has no equation in the paper; valid: {', '.join(RINGS)}"
        )
    if getattr(options, "warmup_epochs", 0):
        raise InputError("probe.strategies: warmup_epochs must be 0: a timing probe has its own warm-up steps")


def predict(name: str, options: Any, basis: Basis) -> Prediction:
    return PREDICTIONS[name](options, basis)


def efficiency(compute: Compute, step_s: float) -> float:
    """Equation (7) for any step: the computation of one worker alone, without communication and codecs, over the step.

    For Pipe-SGD without a codec it is the equation as printed, (l_up + l_comp) / max(l_up + l_comp, l_comm).
    """
    return (compute.l_up + compute.l_comp) / step_s


def _ps_sync(options: Any, basis: Basis) -> Prediction:
    compute, fabric = basis.compute, basis.fabric
    terms = {"l_up": compute.l_up, "l_comp": compute.l_comp}
    n = basis.gradient_bytes
    seconds = step_forms.server_step(basis.p, n, fabric.alpha, fabric.beta, fabric.gamma, **terms)
    return Prediction(seconds, "server", None, terms | {"l_comm": seconds - sum(terms.values())})


def _dsync(options: Any, basis: Basis) -> Prediction:
    used = codec(options.codec)
    compress, decompress = collective_forms.codec_device(basis.gradient_bytes, basis.fabric.costs(), used)
    terms = {
        "l_up": basis.compute.l_up + decompress,
        "l_comp": basis.compute.l_comp + compress,
        "l_comm": _allreduce(options, used, basis.gradient_bytes, basis),
    }
    compute = basis.compute
    printed = step_forms.sync_total(1, compute.l_up, compute.l_comp, _printed_ring(used, basis))
    return Prediction(step_forms.sync_total(1, **terms), "(2)", printed, terms)


def _pipe_sgd(options: Any, basis: Basis) -> Prediction:
    if options.segments > 1:
        return _segmented(options, basis)
    synchronous = _dsync(options, basis)
    if options.K == 1:
        return synchronous
    terms, compute = synchronous.terms, basis.compute
    printed = step_forms.pipe_limited(1, compute.l_up, compute.l_comp, _printed_ring(codec(options.codec), basis))
    equation = "(5)" if options.algorithm == "ring" else "(4)"
    return Prediction(step_forms.pipe_limited(1, **terms), equation, printed, terms)


def _segmented(options: Any, basis: Basis) -> Prediction:
    """Equation (6) as printed beside what limited resources allow (`step_forms.pipe_segmented_limited`)."""
    used, compute, fabric, L = codec(options.codec), basis.compute, basis.fabric, options.segments
    costs = fabric.costs()
    sizes, backward = basis.buckets[L], compute.buckets[L]
    work = [collective_forms.codec_device(n, costs, used) for n in sizes]
    backward = [seconds + compress for seconds, (compress, _) in zip(backward, work, strict=True)]
    communication = [_allreduce(options, used, n, basis) for n in sizes]
    terms = {
        "l_up": compute.l_up + sum(decompress for _, decompress in work),
        "l_comp": compute.l_for + sum(backward),
        "l_comm": sum(communication),
    }
    seconds = step_forms.pipe_segmented_limited(1, options.K, terms["l_up"], compute.l_for, backward, communication)
    if options.K == 1:  # equation (6) has the iterations pipelined
        return Prediction(seconds, "derived", None, terms)
    printed = step_forms.pipe_segmented(
        1, L, compute.l_up, compute.l_for, compute.buckets[L][0], basis.p, _wire_bytes(used, basis), *_network(fabric)
    )
    return Prediction(seconds, "(6)", printed, terms)


def _allreduce(options: Any, used: Codec, n: int, basis: Basis) -> float:
    """Seconds of the named ring on a gradient of n bytes."""
    fabric, costs = basis.fabric, basis.fabric.costs()
    form = {"ring": collective_forms.ring_encoded, "ring_pipelined": collective_forms.ring_pipelined_encoded}
    return form[options.algorithm](basis.p, n, fabric.alpha, fabric.beta, costs, used)


def _network(fabric: FabricModel) -> tuple[float, float, float, float]:
    return fabric.alpha, fabric.beta, fabric.gamma, fabric.sync


def _printed_ring(used: Codec, basis: Basis) -> float:
    """The second term of equation (5), as printed: equation (6)'s with one segment."""
    return step_forms.pipe_segmented(1, 1, 0.0, 0.0, 0.0, basis.p, _wire_bytes(used, basis), *_network(basis.fabric))


def _wire_bytes(used: Codec, basis: Basis) -> int:
    return used.wire_bytes(basis.gradient_bytes // FLOAT32)


PREDICTIONS: dict[str, Callable[[Any, Basis], Prediction]] = {
    "ps_sync": _ps_sync,
    "dsync": _dsync,
    "pipe_sgd": _pipe_sgd,
}
