"""What top-k and gTop-k S-SGD share: residuals, selection, densities, a thread for them (gTop-k, Algorithms 1, 4)."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repro.common.errors import InputError, unknown
from repro.fabric import selection
from repro.fabric.base import BACKGROUND, MAIN
from repro.fabric.sparse import CODECS, Sparse, Wire
from repro.training.buckets import block_sizes, segments
from repro.training.worker import Worker
from strategies.base import StepReport
from strategies.shared.data_parallel import DataParallel
from strategies.shared.densities import Densities


@dataclass
class SparseOptions:
    """Options that both strategies have."""

    density: float = 0.001  # rho: k = round(rho x parameters) elements leave each worker
    warmup_densities: Sequence[float] = ()  # one an epoch, before `density` (section IV-B)
    selection: str = "exact"
    codec: str = "none"  # of the values on the wire; indices are int32
    momentum_correction: bool = False
    thread: bool = True  # residuals, selection and communication in a thread of their own (section III-F)
    K: int = 1  # iterations in the pipeline, as Pipe-SGD's: an update uses the gradients of the K-th last iteration

    def __post_init__(self) -> None:
        _ = self.densities
        selection.check(self.selection)
        if self.codec not in CODECS:
            raise unknown("codec of sparse values", self.codec, CODECS)
        for name in ("momentum_correction", "thread"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"strategy.{name}={getattr(self, name)}: must be true or false")
        if not isinstance(self.K, int) or isinstance(self.K, bool) or self.K < 1:
            raise InputError(f"strategy.K={self.K}: must be a whole number, 1 (no pipeline) or more")
        if self.K > 1 and not self.thread:
            raise InputError(f"strategy.K={self.K}: a pipeline needs strategy.thread=true")

    @property
    def densities(self) -> Densities:
        return Densities(self.density, self.warmup_densities)


@dataclass
class Pending:
    """An iteration from its gradient to its update."""

    buffer: torch.Tensor  # (n,) the gradient, later the update
    updates: int  # made before its weights were read
    result: list[Sparse] | None = None  # what all workers apply, as sparse vectors to be summed


class Sparsified(DataParallel):
    """A step: gradient into the residual, select, exchange, update with what came of it.

    Everything between gradient and update happens on a task beside the computation (section III-F), which adds a
    block's gradient to the residual while the backward pass of the blocks before it goes on; with `thread` false on the
    main line, as section IV-E measures. Both give the same bits.

    residual  (n,) what has not been applied yet, of this rank
    velocity  (n,) with momentum correction (Lin et al., "Deep Gradient Compression", ICLR 2018, section 3.2): momentum
              before the selection in the place of the optimizer's, and cleared where an element was selected
    """

    requires = frozenset({"threads"})
    Options = SparseOptions
    neutral = {"density": 1.0}  # noqa: RUF012

    @classmethod
    def check_model(cls, options: SparseOptions, sizes: Sequence[int]) -> None:
        options.densities.check(sum(sizes))

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        part, options = worker.model_shard, self.options
        self.check_model(options, block_sizes(part.blocks))
        self.residual = torch.zeros_like(part.weights)
        self.velocity: torch.Tensor | None = None
        if options.momentum_correction:
            self.velocity = torch.zeros_like(part.weights)
            [group] = part.optimizer.param_groups
            self.momentum, group["momentum"] = group["momentum"], 0.0
        self.starts = starts(part.parameters)
        names = {id(p): name for name, p in part.model.named_parameters()}
        self.names = [names[id(p)] for p in part.parameters]
        self.totals = {
            name: torch.zeros((), dtype=torch.float64, device=part.device)
            for name in ("sent_mass", "dropped_mass", "lost_mass")
        }
        self.channel = BACKGROUND if options.thread else MAIN
        self.buffers = deque([self.gradient, *(part.empty() for _ in range(options.K - 1))])
        self.pending: deque[Pending] = deque()
        self.updates = 0
        self.select_s = worker.fabric.costs.seconds(f"select/{options.selection}", 4 * part.size)
        self.task = None
        if options.thread:
            self.segments = segments(part.blocks, sum(size > 0 for size in block_sizes(part.blocks)))
            self.work, self.selected, self.results = (worker.fabric.queue() for _ in range(3))
            self.task = worker.fabric.spawn(self._sparsify, "sparsification")

    # --- the main line
    def step(self) -> StepReport:
        pending = Pending(self.buffers.popleft(), self.updates)
        iteration = self.iteration
        if self.task:
            report = self._handed_over(pending.buffer)
        else:
            report = self.local_gradient(pending.buffer)  # Algorithms 1 and 4, line 3
            clock = self.worker.clock
            with clock.phase("compress"):
                self._accumulate(pending.buffer, 0, self.residual.numel())  # line 4
                mine = self._select(iteration)  # lines 5 to 8
            with clock.phase("communicate"):
                pending.result = self._exchange(mine)  # lines 9 and 10
        self.pending.append(pending)
        while len(self.pending) >= self.options.K:
            report.staleness += (self._apply_next(),)
        return report

    def _handed_over(self, buffer: torch.Tensor) -> StepReport:
        """Forward and backward pass; each block's gradient goes to the task as soon as it is complete."""
        worker, minibatch = self.worker, self.minibatch()
        of_block = {block: segment for segment in self.segments for block in segment.trained}

        def block_ready(block: int) -> None:
            if segment := of_block.get(block):
                if worker.arithmetic:
                    segment.gradient(buffer)
                self.work.put((buffer, segment.start, segment.end))

        loss = worker.gradients(minibatch, gradient_ready=block_ready)
        self.work.put(self.iteration)
        self.iteration += 1
        return StepReport(loss, (minibatch,), worker.batches.size)

    def _apply_next(self) -> int:
        """Update with the oldest iteration under way; returns its staleness."""
        oldest = self.pending[0]
        self._await(oldest)
        self.pending.popleft()
        for part in oldest.result:
            part.check(self.names, f"at step {self.updates + 1}")
        with self.worker.clock.phase("compress"):
            oldest.buffer.zero_()
            for part in oldest.result:
                part.add_to(oldest.buffer)
        staleness = self.updates - oldest.updates
        # line 11; the division by P that Algorithm 4 omits (ERRATA) is in `update`
        self.worker.update(oldest.buffer)
        self.updates += 1
        self.buffers.append(oldest.buffer)
        return staleness

    def _await(self, pending: Pending) -> None:
        if pending.result is None:
            clock = self.worker.clock
            with clock.phase("compress"):
                self.selected.get()
            with clock.phase("communicate"):
                pending.result = self.results.get()

    # --- residuals, selection, exchange: on the task, or without one on the main line
    def _sparsify(self) -> None:
        clock = self.worker.clock
        while (item := self.work.get(timeout=float("inf"))) is not None:
            if isinstance(item, tuple):
                with clock.phase("compress"):
                    self._accumulate(*item)
                continue
            with clock.phase("compress"):
                mine = self._select(item)
            self.selected.put(None)
            with clock.phase("communicate"):
                result = self._exchange(mine)
            self.results.put(result)

    def _accumulate(self, gradient: torch.Tensor, start: int, end: int) -> None:
        """Line 4: G_i = G_(i-1) + gradient; with momentum correction u = m u + gradient, G_i = G_(i-1) + u."""
        added = gradient[start:end]
        if self.velocity is not None:
            added = self.velocity[start:end].mul_(self.momentum).add_(added)
        self.residual[start:end].add_(added)

    def _select(self, iteration: int) -> Sparse:
        """Lines 5 to 8: take the k largest out of the residual."""
        options, worker = self.options, self.worker
        k = options.densities.k(self.residual.numel(), iteration // worker.iterations_per_epoch)
        with worker.fabric.compute(self.select_s):
            mine = selection.select(self.residual, k, options.selection)
            if worker.arithmetic:
                mine.clear(self.residual)
                if self.velocity is not None:
                    mine.clear(self.velocity)
                self.totals["sent_mass"] += mine.mass()
        return mine.flagged(worker.rank, self.starts)

    def _exchange(self, mine: Sparse) -> list[Sparse]:
        return self.exchange(mine, Wire(mine.k, self.options.codec))

    @abstractmethod
    def exchange(self, mine: Sparse, wire: Wire) -> list[Sparse]:
        """From this rank's elements to those that all apply, whose sum is the update; the same on every rank.

        What is not applied goes back into `self.residual`.
        """

    # --- the harness's
    def counters(self) -> dict[str, torch.Tensor]:
        return self.totals if self.worker.arithmetic else {}

    def settle(self) -> None:
        for pending in self.pending:
            self._await(pending)

    def drain(self) -> None:
        while self.pending:
            self._apply_next()

    def state_dict(self) -> dict:
        ready = [(p.updates, [(s.values.clone(), s.indices.clone()) for s in p.result]) for p in self.pending]
        held = {"residual": self.residual.clone(), "updates": self.updates, "ready": ready, "totals": self.totals}
        if self.velocity is not None:
            held["velocity"] = self.velocity.clone()
        return super().state_dict() | held

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.residual.copy_(state["residual"])
        if self.velocity is not None:
            self.velocity.copy_(state["velocity"])
        self.updates, device = state["updates"], self.residual.device
        for name, total in state["totals"].items():
            self.totals[name].copy_(total)
        for updates, parts in state["ready"]:
            result = [Sparse(values.to(device), indices.to(device)) for values, indices in parts]
            self.pending.append(Pending(self.buffers.popleft(), updates, result))

    def close(self) -> None:
        if self.task:
            self.work.put(None)
            self.task.join()


def starts(parameters: Sequence[torch.nn.Parameter]) -> torch.Tensor:
    """(parameters,) int32: where each begins in the vector of all."""
    sizes = torch.tensor([0, *(p.numel() for p in parameters)][:-1])
    return sizes.cumsum(0).to(torch.int32).to(parameters[0].device)
