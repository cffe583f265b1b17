"""The stages of a run: from its options, or from the partitioner for its model, device and network."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from repro.algorithms.pipeline import profile as profiles
from repro.algorithms.pipeline.layers import Profile
from repro.algorithms.pipeline.layout import AUTOMATIC, EVEN, Layout, make_layout, parse_config
from repro.algorithms.pipeline.partition import Partition, best_partition
from repro.core.config_folders import profile_path
from repro.core.errors import InputError
from repro.training.device_times import BACKWARD_TO_FORWARD, BlockSeconds, block_flops

if TYPE_CHECKING:
    from repro.training.worker import Worker

NOMINAL_FLOPS = 1e11  # FLOP/s of a device without a profile: a CPU core or two
NOMINAL_BANDWIDTH = 1.25e8  # bytes/s of a network of unknown rate: 1 Gbit/s


@dataclass(frozen=True)
class Configuration:
    """Stages and their origin.

    source   "given" (by the options), "partitioner: measured profile" or "partitioner: estimated profile"
    blocks   the names of each stage's blocks
    seconds  of each stage and minibatch by the partitioner's cost model; None for stages from the options
    """

    layout: Layout
    source: str
    blocks: tuple[tuple[str, ...], ...]
    seconds: tuple[float | None, ...]

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The stages for a run's record: {first, last (block), replicas, blocks, seconds}."""
        return [
            stage._asdict() | {"blocks": names, "seconds": seconds}
            for stage, names, seconds in zip(self.layout.stages, self.blocks, self.seconds)
        ]


def configure_stages(worker: Worker, options: Any, sample: torch.Tensor) -> Configuration:
    """The stages by the options `config`, `cuts`, `profile`, `bandwidth_Bps` and `cost_model`; the same on every rank.

    sample: a minibatch (N, ...). InputError if the model, the number of ranks and the options do not fit together.
    """
    names = [name for name, _ in worker.model_shard.model.named_children()]
    automatic = options.config in AUTOMATIC
    if not automatic and (options.cuts is not None or "-" not in options.config):
        stages = make_layout(options.config, options.cuts or [], len(names))
        return Configuration(stages, "given", _names(stages, names), (None,) * len(stages.stages))
    profile = profile_model(worker, options, sample)
    bandwidth = options.bandwidth_Bps or worker.fabric.bandwidth_Bps or NOMINAL_BANDWIDTH
    best = best_stages(profile, worker.workers, bandwidth, options.config, options.cost_model)
    source = f"partitioner: {profile.source} profile"
    return Configuration(best.layout, source, _names(best.layout, names), tuple(stage.seconds for stage in best.stages))


def best_stages(profile: Profile, workers: int, bandwidth: float, config: str, cost_model: str = "paper") -> Partition:
    """The partitioner's stages for an option `config` and a bandwidth in bytes/s; InputError if there are none."""
    network = profile, (workers,), (bandwidth,), cost_model
    if config != EVEN:
        replicas = None if config in AUTOMATIC else parse_config(config)
        return best_partition(*network, straight=config == "straight", replicas=replicas, counting=False)
    counts = [n for n in range(2, workers // 2 + 1) if workers % n == 0 and workers // n <= len(profile.layers)]
    if not counts:
        raise InputError(
            f"strategy.config={config}: {workers} workers in equal stages of two or more, of {len(profile.layers)} "
            "layers: must be a product of two numbers of which one is at most the layers"
        )
    pipelines = (best_partition(*network, replicas=[n] * (workers // n), counting=False) for n in counts)
    return min(pipelines, key=lambda pipeline: pipeline.pipeline_s)


def profile_model(worker: Worker, options: Any, sample: torch.Tensor) -> Profile:
    """The partitioner's input: the profile in the options' file, else from the testbed's device or from FLOPs."""
    model = worker.model_shard.model
    if options.profile is not None:
        profile = profiles.load_profile(profile_path(options.profile))
        profiles.check_model(profile, [name for name, _ in model.named_children()])
        return profile
    model = copy.deepcopy(model)  # `estimated` moves it to the meta device
    seconds, hardware = worker.blocks, "the testbed's device"
    if seconds is None:
        flops = block_flops(model, tuple(sample.shape[1:]), sample.shape[0])
        forward = [count / NOMINAL_FLOPS for count in flops]
        seconds = BlockSeconds(forward, [BACKWARD_TO_FORWARD * forward_s for forward_s in forward])
        hardware = f"a device of {NOMINAL_FLOPS:g} FLOP/s"
    return profiles.estimate_profile(model, seconds, sample, hardware)


def _names(stages: Layout, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(names[stage.first : stage.last + 1]) for stage in stages.stages)
