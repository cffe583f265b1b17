"""A strategy's step in virtual time: its own code, on a model with the sizes and seconds of a profile."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from repro.algorithms import imbalance
from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.registry import PLUGINS
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.fabric.virtual.network import Network
from repro.probes.shared.steps import observe, summarise
from repro.probes.shared.synthetic import OPTIMIZER, NoData
from repro.strategies.base import Strategy
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker

WARMUP, STEPS = 2, 2  # iterations that do not count, and that do, of a step that is always the same
UNEVEN_STEPS = 16  # that count where a random rank is late


@dataclass(frozen=True)
class Step:
    """Seconds of an iteration: of the global batch, `workers` minibatches; phases of a rank's main line add up to it.

    hidden_s: communication behind computation.
    """

    seconds: float
    phases: Mapping[str, float]
    hidden_s: float = 0.0


class SizedBlock(nn.Module):
    """A layer's bytes of weights and of outputs, and nothing else; on the meta device."""

    def __init__(self, layer: Layer):
        super().__init__()
        elements = math.ceil(layer.parameter_bytes / FLOAT32)
        if elements:
            self.weights = nn.Parameter(torch.empty(elements, device="meta"))
        self.outputs = max(1, round(layer.activation_bytes / FLOAT32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(1, self.outputs).requires_grad_(x.requires_grad)


def worker(fabric: virtual.VirtualFabric, workers: int, profile: Profile, late_s: float) -> Worker:
    """A rank that trains the profile's model; a random one of them is late by `late_s` in each iteration."""
    names = [f"{number}_{layer.name}".replace(".", "_") for number, layer in enumerate(profile.layers)]
    model = nn.Sequential(OrderedDict(zip(names, map(SizedBlock, profile.layers))))
    late = imbalance.load("random_one") if late_s and workers > 1 else None
    return Worker(
        workers=workers,
        fabric=fabric,
        clock=Clock(fabric),
        model_shard=ModelShard(model, OPTIMIZER, torch.device("meta")),
        batches=NoData(round(profile.input_bytes), "meta"),
        iterations_per_epoch=1_000_000,
        seed=0,
        blocks=BlockSeconds([one.forward_s for one in profile.layers], [one.backward_s for one in profile.layers]),
        arithmetic=False,
        imbalance=late(late.Options(delay_s=late_s), workers, 0) if late else None,
    )


def step(
    name: str,
    options: Mapping[str, Any],
    profile: Profile,
    workers: int,
    network: Network,
    costs: Costs,
    late_s: float = 0.0,
) -> Step:
    """A step in the steady middle of a run of the registered strategy; InputError for options that it does not have."""
    kind: type[Strategy] = PLUGINS["strategy"].load(name)
    parsed = kind.parse(options)
    steps = UNEVEN_STEPS if late_s else STEPS

    def rank(fabric: virtual.VirtualFabric) -> list[dict[str, Any]]:
        return observe(fabric, kind(parsed), worker(fabric, workers, profile, late_s), WARMUP, steps)

    ranks = kind.ranks(parsed, workers)
    found = summarise([virtual.run(ranks, rank, network, costs)[0]], steps)
    return Step(found["observed_s"]["median"], found["phases"], found["communication"]["overlapped_s"])
