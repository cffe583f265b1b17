"""Step times that Pipe-SGD's equations (2) and (4) to (7) predict from separate measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.algorithms.timing import collective_forms, step_forms
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.errors import InputError, unknown_name
from repro.fabric.codecs import Codec, make_codec
from repro.probes.shared.computation import Compute
from repro.probes.shared.fabric_model import FabricModel

ALGORITHMS = ("ring", "ring_pipelined")  # that have an equation


@dataclass(frozen=True)
class Prediction:
    """Seconds a step in steady state.

    printed: by the equation exactly as printed (n/p not rounded, n the bytes on the wire, no codec work); None if the
    paper has no equation. terms: l_up includes decompression, l_comp compression.
    """

    seconds: float
    equation: str
    printed: float | None
    terms: dict[str, float]


@dataclass(frozen=True)
class Basis:
    """The measurements; p: workers; buckets: L -> bytes of the gradient's L buckets, in the order of communication."""

    p: int
    buckets: Mapping[int, Sequence[int]]
    fabric: FabricModel
    compute: Compute

    @property
    def gradient_bytes(self) -> int:
        return sum(next(iter(self.buckets.values())))

    @property
    def network(self) -> tuple[float, float, float, float]:
        return self.fabric.alpha, self.fabric.beta, self.fabric.gamma, self.fabric.sync


def check_predictable(name: str, options: Any) -> None:
    """InputError for a strategy or options that no equation here predicts."""
    if name not in PREDICTIONS:
        raise unknown_name("strategy of a timing model", name, PREDICTIONS)
    if name != "ps_sync" and options.algorithm not in ALGORITHMS:
        raise InputError(
            f"probe.strategies: algorithm '{options.algorithm}' has no equation in the paper; valid: "
            f"{', '.join(ALGORITHMS)}"
        )
    if getattr(options, "warmup_epochs", 0):
        raise InputError("probe.strategies: warmup_epochs must be 0: a timing probe has its own warm-up steps")


def step_efficiency(compute: Compute, step_s: float) -> float:
    """Equation (7) for any step: one worker's computation, without communication and codecs, over the step.

    For Pipe-SGD without a codec it is the equation as printed, (l_up + l_comp) / max(l_up + l_comp, l_comm).
    """
    return compute.total / step_s


def _ps_sync(options: Any, basis: Basis) -> Prediction:
    compute, fabric = basis.compute, basis.fabric
    terms = {"l_up": compute.update, "l_comp": compute.l_comp}
    n = basis.gradient_bytes
    seconds = step_forms.server_step(basis.p, n, fabric.alpha, fabric.beta, fabric.gamma, **terms)
    return Prediction(seconds, "server", None, terms | {"l_comm": seconds - sum(terms.values())})


def _dsync(options: Any, basis: Basis) -> Prediction:
    used, compute = make_codec(options.codec), basis.compute
    compress, decompress = collective_forms.codec_device(basis.gradient_bytes, basis.fabric.costs, used)
    terms = {
        "l_up": compute.update + decompress,
        "l_comp": compute.l_comp + compress,
        "l_comm": _allreduce_s(options, used, basis.gradient_bytes, basis),
    }
    printed = step_forms.sync_total(1, compute.update, compute.l_comp, _printed_ring_s(used, basis))
    return Prediction(step_forms.sync_total(1, **terms), "(2)", printed, terms)


def _pipe_sgd(options: Any, basis: Basis) -> Prediction:
    if options.segments > 1:
        return _segmented(options, basis)
    synchronous = _dsync(options, basis)
    if options.K == 1:
        return synchronous
    terms, compute = synchronous.terms, basis.compute
    printed_ring_s = _printed_ring_s(make_codec(options.codec), basis)
    printed = step_forms.pipe_limited(1, compute.update, compute.l_comp, printed_ring_s)
    equation = "(5)" if options.algorithm == "ring" else "(4)"
    return Prediction(step_forms.pipe_limited(1, **terms), equation, printed, terms)


def _segmented(options: Any, basis: Basis) -> Prediction:
    """Equation (6) as printed, and what limited resources allow (`step_forms.pipe_segmented_limited`)."""
    used, compute, L = make_codec(options.codec), basis.compute, options.segments
    costs = basis.fabric.costs
    work = [collective_forms.codec_device(n, costs, used) for n in basis.buckets[L]]
    backward = [seconds + compress for seconds, (compress, _) in zip(compute.buckets[L], work, strict=True)]
    communication = [_allreduce_s(options, used, n, basis) for n in basis.buckets[L]]
    terms = {
        "l_up": compute.update + sum(decompress for _, decompress in work),
        "l_comp": compute.l_for + sum(backward),
        "l_comm": sum(communication),
    }
    seconds = step_forms.pipe_segmented_limited(1, options.K, terms["l_up"], compute.l_for, backward, communication)
    if options.K == 1:  # equation (6) is about pipelined iterations
        return Prediction(seconds, "derived", None, terms)
    printed = step_forms.pipe_segmented(
        1, L, compute.update, compute.l_for, compute.buckets[L][0], basis.p, _wire_bytes(used, basis), *basis.network
    )
    return Prediction(seconds, "(6)", printed, terms)


def _allreduce_s(options: Any, used: Codec, n: int, basis: Basis) -> float:
    """Seconds of the ring that the options name, on a gradient of n bytes."""
    ring = basis.p, n, basis.fabric.alpha, basis.fabric.beta, basis.fabric.costs, used
    if options.algorithm == "ring_pipelined":
        return collective_forms.ring_pipelined_encoded(*ring, options.pieces)
    return collective_forms.ring_encoded(*ring)


def _printed_ring_s(used: Codec, basis: Basis) -> float:
    """The second term of equation (5) as printed: that of equation (6) with one segment."""
    return step_forms.pipe_segmented(1, 1, 0.0, 0.0, 0.0, basis.p, _wire_bytes(used, basis), *basis.network)


def _wire_bytes(used: Codec, basis: Basis) -> int:
    return used.wire_bytes(basis.gradient_bytes // FLOAT32)


PREDICTIONS: dict[str, Callable[[Any, Basis], Prediction]] = {
    "ps_sync": _ps_sync,
    "dsync": _dsync,
    "pipe_sgd": _pipe_sgd,
}
