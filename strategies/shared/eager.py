"""What the eager-SGD strategies share: the algorithm of section 5, on a partial allreduce.

Figure 7's protocol, the receive buffer and the rounds are `repro.fabric.collectives.partial`; who starts a round is
`repro.fabric.collectives.activation`, and all that the strategies differ in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from repro.core.errors import InputError
from repro.core.fields import Positive, Share
from repro.fabric.base import BACKGROUND
from repro.fabric.collectives.activation import Activation
from repro.fabric.collectives.compressed import check
from repro.fabric.collectives.partial import PartialAllreduce
from repro.fabric.collectives.send_buffer import SendBuffer, TopK, Whole
from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import DataParallel
from repro.strategies.shared.sparsification import Densities
from repro.training.worker import Worker


@dataclass
class EagerOptions:
    """Options that all of them have."""

    algorithm: str = "recursive_doubling"  # of the rounds, as in Figure 6
    codec: str = "none"  # beyond the paper: quantised contributions, inside each hop of a ring
    density: Share | None = None  # beyond the paper: only this share of the send buffer goes into a round
    # a gradient that comes late: added to the next one, or dropped as in some implementations
    late: Literal["accumulate", "drop"] = "accumulate"
    repeated: Literal["apply", "skip"] = "apply"  # a result that the rank has applied already
    sync_epochs: Positive | None = None  # between two averages of all ranks' weights (end of section 5)

    def __post_init__(self) -> None:
        check(self.codec, self.algorithm)
        if self.algorithm == "server":  # sums its clients' vectors only: a worker's own would be lost
            raise InputError("strategy.algorithm=server: the server needs a rank of its own; a round has none")
        if self.density is not None and (self.codec != "none" or self.algorithm != "recursive_doubling"):
            raise InputError("strategy.density: top-k has an allgather of its own; leave codec and algorithm out")


class Eager(DataParallel):
    """A step: gradient, partial allreduce, update with what is in the receive buffer.

    Ranks that are late do not hold up the others; their gradients go into a later round (`late`). A rank two or more
    rounds late never applies some results (counted as `missed`) and finds the latest one again at its next step
    (counted as `repeated`), as the paper's receive buffer has it: the ranks' weights drift apart until the next model
    synchronisation.

    At a stop of the run (an evaluation, a checkpoint) all have done the same number of iterations: nobody is further
    ahead than from one stop to the next, so evaluating more often changes who is late.
    """

    requires = frozenset({"threads", "tags", "any_source", "test"})
    Options = EagerOptions
    identical_replicas = False
    deterministic = False
    initiator: ClassVar[str]

    @classmethod
    def check_model(cls, options: EagerOptions, sizes: Sequence[int]) -> None:
        if options.density is not None:
            Densities(options.density).check(sum(sizes))

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        options = self.options
        self.result = worker.model_shard.empty()  # G_global, a copy: the receive buffer goes on changing
        self.applied = -1  # the last round whose result this rank has applied
        self.counts: Counter[str] = Counter()
        self.sync_every = 0
        if options.sync_epochs:
            self.sync_every = max(1, round(options.sync_epochs * worker.iterations_per_epoch))
        self.partial = None
        # one worker is never late: plain SGD, without a copy
        if worker.workers > 1 or options.codec != "none" or options.density is not None:
            self.partial = PartialAllreduce(worker.fabric, self.send_buffer(), self.activation)

    def send_buffer(self) -> SendBuffer:
        worker, options = self.worker, self.options
        place = worker.fabric, worker.model_shard.size, 2 * worker.fabric.size, self.gradient.device
        if options.density is not None:
            k = Densities(options.density).k(worker.model_shard.size, epoch=0)
            return TopK(*place, k, BACKGROUND)
        return Whole(*place, options.algorithm, options.codec, BACKGROUND, 1000 * worker.seed)

    def activation(self, start: Callable[[int], None]) -> Activation:
        return Activation(self.worker.fabric, self.initiator, start, self.worker.seed)

    def step(self) -> StepReport:
        worker, t = self.worker, self.iteration
        if self.partial is None:
            loss = worker.gradients(t)
            worker.update()
            return self.advanced(loss)
        report = self.local_gradient(self.gradient)  # lines 3 to 5
        with worker.clock.phase("compress"):  # into the send buffer
            in_time = self.partial.propose(t, self.gradient, drop=self.options.late == "drop")
        with worker.clock.phase("wait"):
            self.partial.began(t)
        with worker.clock.phase("communicate"):  # line 6
            self.partial.ended(t)
            latest = self.partial.latest(self.result)
        self.counts["late"] += not in_time
        if self.is_new(latest) or self.options.repeated == "apply":
            worker.update(self.result)  # lines 7 and 8
        report.staleness = self.partial.take_delays()
        if self.sync_every and self.iteration % self.sync_every == 0:
            self.synchronise()
        return report

    def is_new(self, found: int) -> bool:
        """Whether this rank has not applied the result of round `found` yet; counts what it never will."""
        new = found > self.applied
        self.counts["missed"] += max(0, found - self.applied - 1)
        self.counts["repeated"] += not new
        self.applied = found
        return new

    def synchronise(self) -> None:
        """Set all ranks' weights to their mean, bit for bit the same; send buffers keep their contents."""
        worker = self.worker
        with worker.clock.phase("communicate"):
            worker.fabric.allreduce(worker.model_shard.weights, op="mean", algorithm="ring")
        self.counts["syncs"] += 1

    def settle(self) -> None:
        if self.partial:
            self.partial.settle()

    def counters(self) -> Mapping[str, float]:
        if self.partial is None:
            return {}
        names = ("rounds", "active", "null", "stale", "accepted", "dropped")
        counted = {name: self.partial.counted[name] for name in names}
        own = {name: self.counts[name] for name in ("late", "missed", "repeated", "syncs")}
        return counted | {"pending": len(self.partial.held)} | own

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if self.partial:
            state |= {"partial": self.partial.state_dict(), "applied": self.applied, "counts": dict(self.counts)}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.partial:
            self.partial.load_state_dict(state["partial"])
            self.applied, self.counts = state["applied"], Counter(state["counts"])

    def close(self) -> None:
        if self.partial:
            self.partial.close()
