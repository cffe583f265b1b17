"""Simulates a candidate's step: its own code in virtual time, on a model with the sizes and seconds of a profile."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from repro.algorithms import imbalance
from repro.algorithms.pipeline.layers import Layer
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.setting import Setting
from repro.algorithms.timing.step import Step, share_exchange
from repro.answers.ranking.candidates import Candidate
from repro.fabric.virtual import fabric as virtual
from repro.fabric.virtual.two_levels import TwoLevelFabric
from repro.probes.shared.steps import observe_steps, summarise_steps
from repro.probes.shared.synthetic import worker_of
from repro.training.device_times import BlockSeconds

WARMUP, STEPS = 2, 2  # uncounted and counted iterations, if all are equal
UNEVEN_STEPS = 16  # counted iterations, if a random rank is late or starts the rounds


class SizedBlock(nn.Module):
    """A layer's weights and outputs as sizes alone, on the meta device."""

    def __init__(self, layer: Layer, matrix: tuple[int, int] | None = None):
        """matrix: (rows, columns) of its weights, else a vector."""
        super().__init__()
        elements = math.ceil(layer.parameter_bytes / FLOAT32)
        if elements:
            self.weights = nn.Parameter(torch.empty(*(matrix or (elements,)), device="meta"))
        self.outputs = max(1, round(layer.activation_bytes / FLOAT32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(1, self.outputs).requires_grad_(x.requires_grad)


def simulate_step(candidate: Candidate, setting: Setting) -> Step:
    """The candidate's step in the steady middle of a run."""
    place, profile, late_s = candidate.place(setting), setting.profile, setting.late_s
    kind, options = candidate.in_virtual_time()
    steps = UNEVEN_STEPS if late_s or kind.uneven else STEPS
    period = kind.period(setting, place, options)
    warmup, steps = (WARMUP, steps) if period == 1 else (max(WARMUP, period), max(WARMUP, period))
    options = replace(options, servers=place.servers) if place.servers else options
    names = [f"{number}_{layer.name}".replace(".", "_") for number, layer in enumerate(profile.layers)]
    seconds = BlockSeconds([each.forward_s for each in profile.layers], [each.backward_s for each in profile.layers])
    matrices = (None if candidate.modelled else setting.matrices) or [None] * len(names)
    worlds: list[virtual.World] = []

    def rank(fabric: virtual.VirtualFabric) -> list[dict[str, Any]]:
        worlds.append(fabric.world)
        model = nn.Sequential(OrderedDict(zip(names, map(SizedBlock, profile.layers, matrices))))
        worker = worker_of(fabric, place.workers, model, round(profile.input_bytes), "meta", seconds)
        if late_s and place.workers > 1:
            late = imbalance.load_imbalance("random_one")
            worker.imbalance = late(late.Options(delay_s=late_s), place.workers, 0)
        return observe_steps(fabric, kind.simulated()(options), worker, warmup, steps)

    ranks, fabric = kind.ranks(options, place.workers), TwoLevelFabric if place.machines else virtual.VirtualFabric
    timings = virtual.run(ranks, rank, setting.network(place), setting.costs, kind=fabric)
    summary = summarise_steps([timings[0]], steps)
    hidden_s = summary["communication"]["overlapped_s"]
    step = Step(summary["observed_s"]["median"], summary["phases"], hidden_s, worlds[0].links.messages)
    return share_exchange(step, setting, candidate.accumulate)
