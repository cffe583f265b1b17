"""A setting: the profile of a model, workers, machines, links and costs of work, known or assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from repro.algorithms.pipeline.layers import Layer, Profile
from repro.experiment.inputs import Quantiles
from repro.experiment.testbeds import Modelled
from repro.fabric.costs import Costs
from repro.fabric.virtual.modelled import virtual_costs, virtual_network
from repro.fabric.virtual.network import Network

MOST_LAYERS = 24  # among which pipelines are cut


@dataclass(frozen=True)
class Place:
    """The ranks of a strategy (servers: ranks that only serve), and the link between two (alpha: s, beta: s/byte).

    machines: with which an allreduce has two levels, of which this is the link between machines; 0: it has one.
    """

    workers: int
    servers: int
    alpha: float
    beta: float
    machines: int = 0


@dataclass(frozen=True)
class Setting:
    """late: delay of one random worker in each iteration, a share of its computation. testbed: the costs; its beta is
    that of the network between machines (s/byte). matrices: (rows, columns) of the parameters; None: unknown.
    links: names of drawn inputs -> what these links deliver. coarse: the profile with few layers before its seconds
    were multiplied by `factor`, if it is known."""

    profile: Profile
    workers: int
    testbed: Modelled
    gpus_per_node: int = 1
    late: float = 0.0
    matrices: tuple[tuple[int, int], ...] | None = None
    links: Mapping[str, Quantiles] = field(default_factory=dict)
    coarse: Profile | None = None
    factor: float = 1.0

    @cached_property
    def stages(self) -> Profile:
        """The profile that pipelines are cut from."""
        return slow_profile(self.uncut, self.factor)

    @cached_property
    def uncut(self) -> Profile:
        """The same, before its seconds were multiplied by `factor`."""
        return self.coarse or coarsen_profile(self.profile)

    @cached_property
    def nbytes(self) -> int:
        """The size of the gradient."""
        return round(sum(layer.parameter_bytes for layer in self.profile.layers))

    @cached_property
    def computation_s(self) -> float:
        return self.profile.seconds

    @property
    def update_s(self) -> float:
        return self.nbytes * self.testbed.update_s_per_byte

    @property
    def late_s(self) -> float:
        return self.late * self.computation_s if self.workers > 1 else 0.0

    @cached_property
    def costs(self) -> Costs:
        return virtual_costs(self.testbed)

    def network(self, place: Place) -> Network:
        """The testbed's network with the link of a place."""
        network = replace(virtual_network(self.testbed), alpha=place.alpha, beta=place.beta)
        return replace(network, hosts=place.machines, local_links=True) if place.machines else network

    @property
    def machines(self) -> int:
        return -(-self.workers // self.gpus_per_node)

    @property
    def uses_network(self) -> bool:
        """Whether workers are in several machines."""
        return self.machines > 1

    @property
    def has_two_levels(self) -> bool:
        """Whether several machines have several workers each."""
        return self.gpus_per_node > 1 and self.machines > 1

    def place(self, link: str, separate: bool = False) -> Place:
        """GPUs of one machine share its network card as `link` says: one of them uses it at a time ("ring"), all do
        ("all"), each for its part of their sum ("two_levels"), or a process that has summed their gradients does
        ("machine"). A ring's latency is the mean of its hops', as in NCCL's own model (src/graph/tuning.cc).

        separate: servers are in machines of their own, as many again.
        """
        bed, gpus = self.testbed, min(self.gpus_per_node, self.workers)
        if self.machines == 1 and gpus > 1:
            return Place(self.workers, 0, bed.local_alpha_s, bed.local_beta_s_per_byte)
        if gpus == 1:
            return Place(self.workers, self.workers if separate else 0, bed.alpha_s, bed.beta_s_per_byte)
        if link == "two_levels":
            return Place(self.workers, 0, bed.alpha_s, bed.beta_s_per_byte, self.machines)
        if link == "ring":
            between = (self.machines - 1) / (self.workers - 1)  # the share of the hops that are between machines
            alpha = between * bed.alpha_s + (1 - between) * bed.local_alpha_s
            return Place(self.workers, 0, alpha, max(bed.beta_s_per_byte, bed.local_beta_s_per_byte))
        if link == "all":
            return Place(self.workers, 0, bed.alpha_s, gpus * bed.beta_s_per_byte)
        moved = 1.0 if separate else (self.machines - 1) / self.machines  # bytes each way, per byte of the gradient
        inside = 2 * (gpus - 1) / gpus * bed.local_beta_s_per_byte / moved
        return Place(self.machines, self.machines if separate else 0, bed.alpha_s, max(bed.beta_s_per_byte, inside))

    def with_entries(self, **entries: Any) -> Setting:
        """The setting with other entries of its testbed."""
        return replace(self, testbed=self.testbed.model_copy(update=entries))

    def slower(self, factor: float) -> Setting:
        """The setting with computation that takes `factor` times as long."""
        profile = slow_profile(self.profile, factor)
        return replace(self, profile=profile, coarse=self.uncut, factor=self.factor * factor)


def slow_profile(profile: Profile, factor: float) -> Profile:
    layers = (
        replace(each, forward_s=each.forward_s * factor, backward_s=each.backward_s * factor) for each in profile.layers
    )
    return replace(profile, layers=tuple(layers))


@lru_cache(maxsize=64)
def coarsen_profile(profile: Profile) -> Profile:
    """The profile with neighbouring layers merged, those with the least time and bytes first, until MOST_LAYERS are
    left."""
    layers, seconds = list(profile.layers), profile.seconds or 1.0
    nbytes = sum(layer.parameter_bytes for layer in layers) or 1.0

    def weight(layer: Layer) -> float:
        return layer.seconds / seconds + layer.parameter_bytes / nbytes

    while len(layers) > MOST_LAYERS:
        at = min(range(len(layers) - 1), key=lambda n: weight(layers[n]) + weight(layers[n + 1]))
        before, two = layers[at], layers[at + 1]
        seconds_of = before.forward_s + two.forward_s, before.backward_s + two.backward_s
        sizes = two.activation_bytes, before.parameter_bytes + two.parameter_bytes
        layers[at : at + 2] = [Layer(before.name, *seconds_of, *sizes)]
    return replace(profile, layers=tuple(layers), edges=None)
