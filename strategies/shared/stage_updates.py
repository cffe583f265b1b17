"""How a stage's weights get from one version to the next: alone, or as one of several replicas that synchronise."""

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

    A replica hands its gradient over block by block while the backward pass goes on (wait-free backpropagation, section
    4), a task sums it over the replicas, and `reach` applies the sum when somebody needs the weights that it makes.

    peers   the fabric of the stage's replicas; None where there is one
    needed  which versions passes under way or to come use, asked at every update
    """

    def __init__(
        self,
        worker: Worker,
        plan: Plan,
        versions: Versions,
        peers: Fabric | None,
        options: AllreduceOptions,
        needed: Callable[[], Collection[int]],
    ):
        self.worker, self.plan, self.versions, self.needed = worker, plan, versions, needed
        self.stage, self.replica = plan.layout.place(worker.rank)
        self.share = plan.group(self.stage) // plan.replicas(self.stage)  # of this rank, in a whole update
        self.contributed = 0  # updates to which this rank has contributed all of its gradients
        self.allreduce: BucketedAllreduce | None = None
        self.peers = peers
        if peers is not None and worker.model_shard.parameters:
            # a backward pass comes to the last one first
            buckets = block_buckets(worker.model_shard.blocks)[::-1]
            self.allreduce = BucketedAllreduce(replace(worker, fabric=peers), buckets, options)
            self.gradient = worker.model_shard.empty()
        self.counted = 0  # bytes of the peers' fabric that the worker's has counted

    # --- a backward pass: its gradients are added to those of this rank's minibatches before it in the same update
    def first(self, k: int) -> bool:
        """Whether a rank's k-th minibatch is its first of an update."""
        return k % self.share == 0

    def last(self, k: int) -> bool:
        """Whether a rank's k-th minibatch is its last of an update."""
        return (k + 1) % self.share == 0 or k + 1 == self.plan.count(self.stage, self.replica)

    def while_backward(self, k: int) -> Callable[[int], None] | None:
        """What to call when a block's gradient is ready in backward pass k."""
        return self.allreduce.sending(self.gradient) if self.allreduce and self.last(k) else None

    def after_backward(self, k: int) -> None:
        """Backward pass k is done: the parameters' own gradients have its in them; of the last, the replicas too."""
        if self.last(k):
            self.contributed += 1
            if self.peers is None:
                self._apply(self.contributed - 1)

    # --- versions
    def reach(self, version: int) -> None:
        """Make sure that there is a version; blocks until the other replicas have given their part of it."""
        while self.versions.latest < version:
            self._apply(self.versions.latest)

    def reach_contributed(self) -> None:
        """All updates to which this rank has contributed, and so have the others."""
        self.reach(self.contributed)

    def finish(self) -> None:
        """End of the run: updates that have no minibatch of this rank wait for its part nevertheless."""
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
