"""DiLoCo: local training, and an outer step of Nesterov momentum every H iterations (Douillard et al., 2023).

https://arxiv.org/abs/2311.08105, Algorithm 1. With outer_lr 1 and outer_momentum 0 it is local SGD (Stich, ICLR 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from pydantic import Field

from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, allreduce_s, assemble_step
from repro.core.fields import Count, NonNegative
from repro.fabric.option_names import AllreduceName
from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import DataParallel
from repro.training.worker import Worker


@dataclass
class Options:
    H: Count = 500  # inner steps from one outer step to the next
    outer_lr: NonNegative = 0.7
    outer_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    algorithm: AllreduceName = "ring"  # of the allreduce


class DiLoCo(DataParallel):
    """The inner optimizer is the run's (the paper: AdamW) and keeps its state through outer steps. Evaluations use the
    common weights, those of the last outer step. The run's last round may be shorter.

    common    (n,) theta of the last outer step, the same bits on every rank
    velocity  (n,) of the outer optimizer
    """

    name = "diloco"
    Options = Options
    neutral = {"outer_lr": 1.0, "outer_momentum": 0.0}  # noqa: RUF012
    conformance = {"H": 5}  # noqa: RUF012
    form_options = {"H": 8}  # noqa: RUF012

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step:
        """An allreduce of the weights every H iterations; between them a late worker delays no other."""
        exposed = allreduce_s(setting.nbytes, setting, place) / options.H
        return assemble_step(setting, exposed, late=setting.late_s / place.workers)

    @classmethod
    def period(cls, setting: Setting, place: Place, options: Any) -> int:
        return options.H

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        self.common = worker.model_shard.weights.clone()
        self.velocity = torch.zeros_like(self.common)

    def step(self) -> StepReport:
        loss = self.worker.gradients(self.minibatch())
        self.worker.update()  # inner optimization: theta_i <- InnerOpt(theta_i, gradient)
        report = self.advanced(loss)
        if self.iteration % self.options.H == 0:
            self.outer_step()
        return report

    def outer_step(self) -> None:
        """Delta = theta - mean of theta_i; theta <- OuterOpt(theta, Delta) = theta - lr (Delta + momentum velocity).

        Computed from the mean, theta - Delta, so that the result is the mean, bit for bit, with lr 1 and no momentum.
        """
        options, worker, weights = self.options, self.worker, self.worker.model_shard.weights
        self.average(weights)
        seconds = worker.fabric.costs.seconds("update", 4 * weights.numel())
        with worker.clock.phase("update"), worker.fabric.compute(seconds):
            if worker.arithmetic:
                delta = self.common - weights
                self.velocity.mul_(options.outer_momentum).add_(delta)
                weights.add_(delta, alpha=1 - options.outer_lr)
                weights.add_(self.velocity, alpha=-options.outer_lr * options.outer_momentum)
                self.common.copy_(weights)

    def average(self, weights: torch.Tensor) -> None:
        """Replace this worker's theta_i (n,) by the mean of all."""
        with self.worker.clock.phase("communicate"):
            self.worker.fabric.allreduce(weights, op="mean", algorithm=self.options.algorithm).wait()

    def drain(self) -> None:
        if self.iteration % self.options.H:
            self.outer_step()

    def eval_weights(self) -> dict[str, torch.Tensor]:
        shard = self.worker.model_shard
        names = {id(parameter): name for name, parameter in shard.model.named_parameters()}
        common = zip(shard.parameters, shard.views(self.common))
        return super().eval_weights() | {names[id(parameter)]: view.clone() for parameter, view in common}

    def state_dict(self) -> dict:
        return super().state_dict() | {"common": self.common.clone(), "velocity": self.velocity.clone()}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.common.copy_(state["common"])
        self.velocity.copy_(state["velocity"])
