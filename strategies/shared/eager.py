"""The base class of the eager-SGD strategies: the algorithm of section 5, on a partial allreduce.

Figure 7's protocol, the receive buffer and the rounds are `repro.fabric.collectives.partial`. The strategies differ in
the rank that starts a round: `repro.fabric.collectives.activation`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from repro.core import fields
from repro.core.errors import InputError
from repro.core.fields import Positive, Share
from repro.core.not_none import not_none
from repro.fabric.base import BACKGROUND
from repro.fabric.collectives.activation import Activation
from repro.fabric.collectives.compressed import check_codec
from repro.fabric.collectives.partial import PartialAllreduce
from repro.fabric.collectives.send_buffer import SendBuffer, TopK, Whole
from repro.fabric.option_names import AllreduceName, CodecName
from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import DataParallel
from repro.strategies.shared.sparsification import Densities
from repro.training.buckets import block_buckets, in_order
from repro.training.worker import Worker


@dataclass
class EagerOptions:
    """Options of all eager-SGD strategies."""

    algorithm: AllreduceName = "recursive_doubling"  # of the rounds, as in Figure 6
    codec: CodecName = "none"  # beyond the paper: quantised contributions, inside each hop of a ring
    density: Share | None = None  # beyond the paper: the share of the send buffer that a round sends
    # add a late gradient to the next one, or drop it as in the authors' released code
    late: Literal["accumulate", "drop"] = "accumulate"
    repeated: Literal["apply", "skip"] = "apply"  # a result that the rank has already applied
    sync_epochs: Positive | None = None  # between two averages of all ranks' weights (end of section 5)
    # rounds between two synchronous ones, the most by which a gradient is late; 0: every round is synchronous
    limiter: fields.Whole | None = None
    layerwise: bool = False  # a round for each block, as soon as its gradient is ready in the backward pass

    def __post_init__(self) -> None:
        check_codec(self.codec, self.algorithm)
        if self.algorithm == "server":  # sums only its clients' vectors, without the vector of the server's rank
            raise InputError("strategy.algorithm=server: the server needs a rank of its own, which a round has not")
        if self.density is not None and (self.codec != "none" or self.algorithm != "recursive_doubling"):
            raise InputError("strategy.density: top-k always uses an allgather; leave codec and algorithm out")
        if self.layerwise and (self.density is not None or self.repeated != "apply"):
            raise InputError("strategy.layerwise: not with density or repeated; leave them out")


class Eager(DataParallel):
    """A step: gradient, partial allreduce, update with the receive buffer.

    Late ranks do not delay the others; their gradients go into a later round (`late`). A rank two or more rounds late
    never applies some results (counted as `missed`) and applies the latest one again at its next step (counted as
    `repeated`), as in the paper's receive buffer: the ranks' weights differ until the next model synchronisation.

    With a `limiter` of n every (n + 1)-th round waits for all ranks, so that no gradient is more than n rounds late.
    The authors' code for ImageNet has 32 (github.com/Shigangli/eager-SGD, test-models/tf-models-r1.11/official/utils/
    opt_esgd_solo_imagenet_imbalance.py:82 and 292; it counts in fflib2/src/colls/ffsolo_limiter.c). DEVIATION: it has
    `layerwise` rounds for each of 161 tensors (line 85), which wait for one another; ours are for each block.

    At an evaluation or a checkpoint all ranks have done the same number of iterations, so evaluating more often changes
    which ranks are late.
    """

    requires = frozenset({"threads", "tags", "any_source", "test"})
    Options = EagerOptions
    identical_replicas = False
    deterministic = False
    uneven = True
    initiator: ClassVar[str]

    @classmethod
    def check_model(cls, options: EagerOptions, sizes: Sequence[int]) -> None:
        if options.density is not None:
            Densities(options.density).check(sum(sizes))

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        options = self.options
        self.result = worker.model_shard.empty()  # G_global, a copy: the receive buffer goes on changing
        self.buckets = block_buckets(worker.model_shard.blocks)[::-1] if options.layerwise else []
        whole = slice(0, worker.model_shard.size)
        # of the gradient; each has a round in each step, in this order
        self.parts = [slice(bucket.start, bucket.end) for bucket in self.buckets] or [whole]
        self.applied = [-1] * len(self.parts)  # the last step whose result this rank has applied
        self.counts: Counter[str] = Counter()
        self.sync_every = 0
        if options.sync_epochs:
            self.sync_every = max(1, round(options.sync_epochs * worker.iterations_per_epoch))
        self.partial = None  # a single worker: plain SGD, without a copy
        if worker.workers > 1 or options.codec != "none" or options.density is not None:
            send_buffers = [self.send_buffer(index) for index in range(len(self.parts))]
            self.partial = PartialAllreduce(worker.fabric, send_buffers, self.activation)

    def send_buffer(self, index: int) -> SendBuffer:
        worker, options, part = self.worker, self.options, self.parts[index]
        place = worker.fabric, part.stop - part.start, 2 * worker.fabric.size, self.gradient.device
        if options.density is not None:
            k = Densities(options.density).k(worker.model_shard.size, epoch=0)
            return TopK(*place, k, BACKGROUND)
        return Whole(*place, options.algorithm, options.codec, BACKGROUND, 1000 * worker.seed + index)

    def activation(self, start: Callable[[int], None]) -> Activation:
        worker = self.worker
        return Activation(
            worker.fabric, self.initiator, start, worker.seed, self.quorum, synchronous=self.waits_for_all,
            parts=len(self.parts),
        )  # fmt: skip

    @property
    def quorum(self) -> int | None:
        """The number of ranks that start a round; None: the initiator uses none."""
        return None

    def waits_for_all(self, round_: int) -> bool:
        """Whether the limiter makes a round synchronous."""
        limiter = self.options.limiter
        return limiter is not None and (round_ // len(self.parts) + 1) % (limiter + 1) == 0

    def step(self) -> StepReport:
        worker, t = self.worker, self.iteration
        if self.partial is None:
            loss = worker.gradients(t)
            worker.update()
            return self.advanced(loss)
        report = self.local_gradient(self.gradient, self.proposing(t))  # lines 3 to 5
        if not self.buckets:
            self.propose(t, 0)
        new = [self.collect(t, index) for index in range(len(self.parts))]  # line 6
        if any(new) or self.options.repeated == "apply":
            worker.update(self.result)  # lines 7 and 8
        report.staleness = self.partial.take_delays()
        if self.sync_every and self.iteration % self.sync_every == 0:
            self.synchronise()
        return report

    def proposing(self, step: int) -> Callable[[int], None] | None:
        """A `gradient_ready` callback if each block has a round, else None."""
        if not self.buckets:
            return None

        def complete(index: int) -> None:
            if self.worker.arithmetic:
                self.buckets[index].gradient(self.gradient)
            self.propose(step, index)

        return in_order(self.buckets, complete)

    def propose(self, step: int, index: int) -> None:
        """Add a part of the step's gradient to its send buffer."""
        round_ = step * len(self.parts) + index
        with self.worker.clock.interruption("compress"):
            gradient = self.gradient[self.parts[index]]
            in_time = not_none(self.partial).propose(round_, gradient, drop=self.options.late == "drop")
        self.counts["late"] += not in_time

    def collect(self, step: int, index: int) -> bool:
        """Wait for a part's round and copy its receive buffer; whether this rank has not applied that result yet."""
        partial, round_ = not_none(self.partial), step * len(self.parts) + index
        with self.worker.clock.phase("wait"):
            partial.began(round_)
        with self.worker.clock.phase("communicate"):
            partial.ended(round_)
            latest = partial.latest(self.result[self.parts[index]], index)
        applied, self.applied[index] = self.applied[index], latest
        self.counts["missed"] += max(0, latest - applied - 1)  # results that this rank never applies
        self.counts["repeated"] += latest <= applied
        return latest > applied

    def synchronise(self) -> None:
        """Set all ranks' weights to their mean, with the same bits; send buffers keep their contents."""
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
        counts = {name: self.counts[name] for name in ("late", "missed", "repeated", "syncs")}
        return counted | {"pending": self.partial.pending} | counts

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if self.partial:
            state |= {"partial": self.partial.state_dict(), "applied": list(self.applied), "counts": dict(self.counts)}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        if self.partial:
            self.partial.load_state_dict(state["partial"])
            self.applied, self.counts = list(state["applied"]), Counter(state["counts"])

    def close(self) -> None:
        if self.partial:
            self.partial.close()
