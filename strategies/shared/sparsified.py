"""The base class of top-k and gTop-k S-SGD: Algorithms 1 and 4 of gTop-k without the aggregation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.setting import Setting
from repro.core.errors import InputError
from repro.core.fields import Count, Share
from repro.experiment import limits
from repro.fabric.base import BACKGROUND, MAIN
from repro.fabric.option_names import SparseCodecName
from repro.fabric.sparse import selection
from repro.fabric.sparse.gradients import Sparse, Wire
from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import DataParallel
from repro.strategies.shared.finiteness import Finiteness
from repro.strategies.shared.pending_updates import Pending, PendingUpdates
from repro.strategies.shared.sparsification import Densities, OnMainTask, OnOwnTask
from repro.training.buckets import block_sizes
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker


@dataclass
class SparseOptions:
    """Options of both strategies."""

    density: Share = 0.001  # rho: each worker sends k = round(rho x parameters) elements
    warmup_densities: Sequence[Share] = ()  # of the first epochs, before `density` (section IV-B)
    selection: str = "exact"
    codec: SparseCodecName = "none"  # of the values on the wire; indices are int32
    momentum_correction: bool = False
    thread: bool = True  # residuals, selection and communication in a separate thread (section III-F)
    # iterations in the pipeline, as in Pipe-SGD: an update uses the gradients of the K-th last iteration
    K: Annotated[Count, Field(le=limits.DEPTH)] = 1

    def __post_init__(self) -> None:
        selection.check_selection(self.selection)
        if self.K > 1 and not self.thread:
            raise InputError(f"strategy.K={self.K}: a pipeline needs strategy.thread=true")

    @property
    def densities(self) -> Densities:
        return Densities(self.density, self.warmup_densities)


class Sparsified(DataParallel):
    """A step: add the gradient to the residual, select, aggregate, update. Subclasses implement `exchange`.

    `sparsification` runs these on the main task or on another; `pending_updates` holds results until their updates.

    residual  (n,) this rank's gradients that are not applied yet
    """

    requires = frozenset({"threads"})
    Options = SparseOptions
    neutral = {"density": 1.0}  # noqa: RUF012
    conformance = {"density": 0.25}  # noqa: RUF012  the default would keep nothing

    @classmethod
    def check_model(cls, options: SparseOptions, sizes: Sequence[int]) -> None:
        options.densities.check(sum(sizes))

    @classmethod
    def selected(cls, setting: Setting, options: SparseOptions) -> tuple[int, float]:
        """(k, seconds of the selection), for closed forms."""
        k = max(1, round(options.density * setting.nbytes / FLOAT32))
        return k, setting.costs.modelled(f"select/{options.selection}", setting.nbytes)

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        shard, options = worker.model_shard, self.options
        self.check_model(options, block_sizes(shard.blocks))
        self.residual = torch.zeros_like(shard.weights)
        self.momentum_correction = MomentumCorrection(shard) if options.momentum_correction else None
        self.starts = parameter_starts(shard.parameters)
        names = {id(p): name for name, p in shard.model.named_parameters()}
        self.finiteness = Finiteness([names[id(p)] for p in shard.parameters])
        self.totals = {
            name: torch.zeros((), dtype=torch.float64, device=shard.device)
            for name in ("sent_mass", "dropped_mass", "lost_mass")
        }
        self.select_s = worker.fabric.costs.seconds(f"select/{options.selection}", 4 * shard.size)
        self.exchange_s = worker.fabric.costs.seconds("exchange", 4 * shard.size)
        self.channel = BACKGROUND if options.thread else MAIN
        self.sparsification = OnOwnTask(self) if options.thread else OnMainTask(self)
        buffers = [self.gradient, *(shard.empty() for _ in range(options.K - 1))]
        self.pending = PendingUpdates(buffers, self.sparsification.receive, self.apply)

    def step(self) -> StepReport:
        iteration, gradient = self.iteration, self.pending.begin()
        report = self.local_gradient(gradient, self.sparsification.accumulating(gradient))  # line 3
        self.sparsification.finish(iteration, gradient)  # lines 4 to 10
        report.staleness = self.pending.apply_until(self.options.K)  # line 11
        return report

    # --- Algorithms 1 and 4, by their lines
    def accumulate(self, gradient: torch.Tensor, start: int, end: int) -> None:
        """Line 4: G_i = G_(i-1) + gradient, for elements `start` to `end` - 1 of a gradient (n,)."""
        added = gradient[start:end]
        if self.momentum_correction:
            added = self.momentum_correction.corrected(added, start, end)
        self.residual[start:end].add_(added)

    def select(self, iteration: int) -> Sparse:
        """Lines 5 to 8: take the k largest out of the residual."""
        options, worker = self.options, self.worker
        k = options.densities.k(self.residual.numel(), iteration // worker.iterations_per_epoch)
        with worker.fabric.compute(self.select_s):
            mine = selection.select_topk(self.residual, k, options.selection)
            if worker.arithmetic:
                mine.clear(self.residual)
                if self.momentum_correction:
                    self.momentum_correction.clear(mine)
                self.totals["sent_mass"] += mine.mass()
        return mine.flagged(worker.rank, self.starts)

    def aggregate(self, mine: Sparse) -> list[Sparse]:
        """Lines 9 and 10."""
        with self.worker.fabric.compute(self.exchange_s, "host"):
            wire = Wire(mine.k, self.options.codec)
        return self.exchange(mine, wire)

    @abstractmethod
    def exchange(self, mine: Sparse, wire: Wire) -> list[Sparse]:
        """Sparse vectors whose sum is the update, the same on every rank, from this rank's elements.

        Adds elements that are not applied to `self.residual`.
        """

    def apply(self, pending: Pending, staleness: int) -> None:
        """Line 11; the division by P that Algorithm 4 omits (docs/errata.md, GK-5) is in `update`."""
        for part in pending.result:
            self.finiteness.watch(part, self.pending.updates + 1)
        with self.worker.clock.phase("compress"):
            pending.buffer.zero_()
            for part in pending.result:
                part.add_to(pending.buffer)
        self.worker.update(pending.buffer)

    # --- the harness's
    def counters(self) -> dict[str, torch.Tensor]:
        return self.totals if self.worker.arithmetic else {}

    def settle(self) -> None:
        self.pending.settle()
        self.finiteness.check(self.pending.updates, wait=True)

    def drain(self) -> None:
        self.pending.drain()
        self.settle()

    def state_dict(self) -> dict:
        pending = self.pending.state_dict(lambda parts: [(part.values.clone(), part.indices.clone()) for part in parts])
        state = {"residual": self.residual.clone(), "totals": self.totals}
        if self.momentum_correction:
            state["velocity"] = self.momentum_correction.velocity.clone()
        return super().state_dict() | pending | state

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.residual.copy_(state["residual"])
        if self.momentum_correction:
            self.momentum_correction.velocity.copy_(state["velocity"])
        for name, total in state["totals"].items():
            self.totals[name].copy_(total)
        device = self.residual.device
        self.pending.load_state_dict(state, lambda parts: [Sparse(v.to(device), i.to(device)) for v, i in parts])

    def close(self) -> None:
        self.sparsification.close()


def parameter_starts(parameters: Sequence[torch.nn.Parameter]) -> torch.Tensor:
    """(parameters,) int32: where each parameter begins in the vector of all."""
    sizes = torch.tensor([0, *(p.numel() for p in parameters)][:-1])
    return sizes.cumsum(0).to(torch.int32).to(parameters[0].device)


class MomentumCorrection:
    """Momentum before the selection, instead of the optimizer's (Lin et al., "Deep Gradient Compression", ICLR 2018,
    section 3.2): residuals accumulate velocities, not gradients.

    velocity  (n,) of this rank; selected elements are cleared
    """

    def __init__(self, shard: ModelShard):
        """Takes the momentum from the shard's optimizer."""
        self.velocity = torch.zeros_like(shard.weights)
        [group] = shard.optimizer.param_groups
        if "momentum" not in group:
            raise InputError("strategy.momentum_correction=true: this optimizer has no momentum; must be false")
        self.momentum, group["momentum"] = group["momentum"], 0.0

    def corrected(self, gradient: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """u = m u + gradient for elements `start` to `end` - 1, whose gradient is (end - start,); a view of u."""
        return self.velocity[start:end].mul_(self.momentum).add_(gradient)

    def clear(self, selected: Sparse) -> None:
        selected.clear(self.velocity)
