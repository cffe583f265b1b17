"""Updates of a stage's weights, on a single rank or synchronised between replicas."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from repro.algorithms.pipeline.passes import Plan
from repro.algorithms.pipeline.versions import Versions
from repro.fabric.base import Fabric
from repro.strategies.shared.bucketed import BucketedAllreduce
from repro.strategies.shared.data_parallel import AllreduceOptions
from repro.training.buckets import block_buckets
from repro.training.worker import Worker


class Updates:
    """One rank's updates, in order; update u makes version u + 1.

    A replica sends its gradient block by block during the backward pass (wait-free backpropagation, section 4), a task
    sums it over the replicas, and `reach` applies the sum when a pass needs the new version.

    peers   the fabric of the stage's replicas; None for one replica
    needed  returns the versions that current and later passes use
    """

    def __init__(
        self, worker: Worker, plan: Plan, versions: Versions, peers: Fabric | None, options: AllreduceOptions,
        needed: Callable[[], Collection[int]],
    ):  # fmt: skip
        self.worker, self.plan, self.versions, self.needed = worker, plan, versions, needed
        self.stage, self.replica = plan.layout.place(worker.rank)
        self.share = plan.group(self.stage) // plan.replicas(self.stage)  # this rank's minibatches of an update
        self.contributed = 0  # updates to which this rank has contributed all of its gradients
        self.allreduce: BucketedAllreduce | None = None
        self.peers = peers
        if peers is not None and worker.model_shard.parameters:
            buckets = block_buckets(worker.model_shard.blocks)[::-1]  # in the order of the backward pass
            self.allreduce = BucketedAllreduce(replace(worker, fabric=peers), buckets, options)
            self.gradient = worker.model_shard.empty()
        self.counted = 0  # bytes of the peers' fabric that the worker's fabric includes

    # --- a backward pass adds its gradients to those of this rank's earlier minibatches of the same update
    def first(self, k: int) -> bool:
        """Whether a rank's k-th minibatch is its first of an update."""
        return k % self.share == 0

    def last(self, k: int) -> bool:
        """Whether a rank's k-th minibatch is its last of an update."""
        return (k + 1) % self.share == 0 or k + 1 == self.plan.count(self.stage, self.replica)

    def gradient_ready(self, k: int) -> Callable[[int], None] | None:
        """The callback of backward pass k for each block with a complete gradient."""
        return self.allreduce.sending(self.gradient) if self.allreduce and self.last(k) else None

    def after_backward(self, k: int) -> None:
        """Called after backward pass k, when the parameters' `.grad` include its gradient."""
        if self.last(k):
            self.contributed += 1
            if self.peers is None:
                self._apply(self.contributed - 1)

    # --- versions
    def reach(self, version: int) -> None:
        """Apply updates up to a version; blocks until the other replicas have contributed."""
        while self.versions.latest < version:
            self._apply(self.versions.latest)

    def reach_contributed(self) -> None:
        """Apply all updates to which this rank has contributed."""
        self.reach(self.contributed)

    def finish(self) -> None:
        """At the end of the run, contribute zeros to updates that have no minibatch of this rank."""
        self.reach_contributed()
        for _ in range(self.contributed, self.plan.updates(self.stage)):
            if self.allreduce:
                self.allreduce.send(self.gradient.zero_())
            self.contributed += 1
            self.reach_contributed()

    def _apply(self, update: int) -> None:
        worker = self.worker
        summands = self.plan.summands(self.stage, update)
        gradient = None  # the parameters' own
        if self.allreduce and self.peers:
            self.allreduce.decompress(self.allreduce.receive(), self.gradient)
            gradient = self.gradient
            worker.fabric.bytes_sent += self.peers.bytes_sent - self.counted
            self.counted = self.peers.bytes_sent
        self.versions.advance(lambda: worker.update(gradient, summands=summands), self.needed())

    # --- resume
    def state_dict(self) -> dict:
        """Called between two updates."""
        return {"contributed": self.contributed, "exchange": self.allreduce.state_dict() if self.allreduce else []}

    def load_state_dict(self, state: dict) -> None:
        self.contributed = state["contributed"]
        if self.allreduce:
            self.allreduce.load_state_dict(state["exchange"])

    def close(self) -> None:
        if self.allreduce:
            self.allreduce.close()
