"""D-Sync: decentralised synchronous SGD by allreduce (Pipe-SGD sections 2 and 4, equation (2))."""

from __future__ import annotations

from typing import Any

import torch

from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, allreduce_s, assemble_step, codec_s
from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import AllreduceStrategy, GradientStrategy


class DSync(AllreduceStrategy, GradientStrategy):
    """Gradient, allreduce, update: each iteration depends on the one before."""

    name = "dsync"

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step:
        """Computation, then a ring (equation (2))."""
        communication = allreduce_s(setting.nbytes, setting, place, options.codec)
        return assemble_step(setting, communication, compress=codec_s(setting, options.codec))

    def step(self) -> StepReport:
        if not self.alone:
            return super().step()
        loss = self.worker.gradients(self.minibatch())  # no copy into one vector
        self.worker.update()
        return self.advanced(loss)

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        return self.summed(gradient)
