"""A step: its seconds, and the parts of which it is the sum; parts that several strategies have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from repro.algorithms.timing.collective_forms import codec_device, hierarchical_seconds, ring_encoded, ring_seconds
from repro.algorithms.timing.setting import Place, Setting
from repro.fabric.codecs import make_codec


@dataclass(frozen=True)
class Step:
    """Seconds of an iteration of the global batch; the phases of a rank's main line add up to it.

    hidden_s: communication during computation. messages: of the whole simulation; 0: a closed form's. bound: whether it
    is only a lower bound.
    """

    seconds: float
    phases: Mapping[str, float]
    hidden_s: float = 0.0
    messages: int = 0
    bound: bool = False

    @property
    def load(self) -> float:
        """Communication, hidden or not, over computation."""
        return (self.phases["communication"] + self.hidden_s) / self.phases["computation"]


def share_exchange(step: Step, setting: Setting, minibatches: int) -> Step:
    """The step of a minibatch if the gradients of so many are exchanged at once; a late worker delays no other until
    then."""
    if minibatches == 1:
        return step
    computation, n = setting.computation_s, minibatches
    late = (n - 1) / n * setting.late_s / setting.workers
    parts = {name: part if name == "computation" else part / n for name, part in step.phases.items()}
    parts["late workers"] = parts.get("late workers", 0.0) + late
    seconds = computation + (step.seconds - computation) / n + late
    return replace(step, seconds=seconds, phases=parts, hidden_s=step.hidden_s / n)


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


def allreduce_s(nbytes: int, setting: Setting, place: Place, codec: str = "none") -> float:
    """Seconds of an allreduce of all workers, on the communication thread: a ring, or in two levels."""
    if place.workers == 1:
        return 0.0
    bed = setting.testbed
    if place.machines:
        links = (place.alpha, place.beta), (bed.local_alpha_s, bed.local_beta_s_per_byte)
        gpus = place.workers // place.machines
        return hierarchical_seconds(place.machines, gpus, nbytes, *links, bed.gamma_s_per_byte)
    if codec != "none":
        return ring_encoded(place.workers, nbytes, place.alpha, place.beta, setting.costs, make_codec(codec))
    return ring_seconds(place.workers, nbytes, place.alpha, place.beta, bed.gamma_s_per_byte, bed.sync_s)


def codec_s(setting: Setting, codec: str) -> float:
    """Seconds of compression and decompression on the computation thread."""
    return 0.0 if codec == "none" else sum(codec_device(setting.nbytes, setting.costs, make_codec(codec)))
