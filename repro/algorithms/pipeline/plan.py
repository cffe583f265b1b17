"""A pipeline's static plan: what every rank does in which order, and which weights each pass uses.

Both policies of the paper's section 3.3 are static, so every rank works the whole plan out by itself. A rank
counts the minibatches that are its own: of m replicas number q has minibatches q, q + m, ..., and its k-th is k m + q.

Step k of a rank is the forward passes that come before its k-th backward pass, then that pass:

    1f1b        (section 3.3) at start-up as many forward passes as a rank has minibatches in flight, then one backward
                and one forward in turn; at the end backward passes alone
    gpipe       (beyond the paper; Huang et al., 2019) all forward passes of a flush, then all its backward passes
    1f1b-flush  (beyond the paper; Narayanan et al., 2021) 1F1B inside a flush, drained before the next one begins

An update of a stage's weights uses the mean gradient of a group of minibatches: in 1f1b one a replica (a round:
docs/errata.md), with flushes all of a flush. Version v of a stage's weights has v updates in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from repro.algorithms.pipeline.layout import Layout
from repro.core.errors import InputError
from repro.core.not_none import not_none

SCHEDULES = ("1f1b", "gpipe", "1f1b-flush")
SEMANTICS = ("stashing", "vertical_sync", "naive")
FORWARD, BACKWARD = "F", "B"


class Op(NamedTuple):
    """A pass of one rank: forward or backward, of its k-th minibatch."""

    kind: str
    k: int


@dataclass(frozen=True)
class Plan:
    """A layout, how many minibatches it trains on, and in which order.

    flush      minibatches between two flushes; of the schedules that have them
    in_flight  minibatches that a replica of the input stage has in flight at most; None: NOAM
    semantics  which weights passes use: "stashing" (section 3.4: a backward pass those of its forward pass),
               "vertical_sync" (those that the input stage had), "naive" (a backward pass the latest)
    overlap    whether replicas go on while they synchronise a round: the forward passes until their next backward pass
               then use the weights before it. Where only one minibatch is in flight there is nothing to go on with
    """

    layout: Layout
    minibatches: int
    schedule: str = "1f1b"
    flush: int | None = None
    in_flight: int | None = None
    semantics: str = "stashing"
    overlap: bool = True

    def __post_init__(self) -> None:
        if self.flush is not None:
            for number, stage in enumerate(self.layout.stages):
                if self.flush % stage.replicas:
                    raise InputError(
                        f"a flush of {self.flush} minibatches cannot be shared by the {stage.replicas} replicas of "
                        f"stage {number}: it must be a multiple of each stage's replicas ({self.layout.config})"
                    )

    # --- who does which minibatches
    def replicas(self, stage: int) -> int:
        return self.layout.stages[stage].replicas

    def count(self, stage: int, replica: int, minibatches: int | None = None) -> int:
        """How many of the first `minibatches` (all of the plan) are a replica's own."""
        total = self.minibatches if minibatches is None else minibatches
        return max(0, -((replica - total) // self.replicas(stage)))

    def minibatch(self, stage: int, replica: int, k: int) -> int:
        return k * self.replicas(stage) + replica

    # --- the order of passes
    def window(self, stage: int) -> int:
        """Minibatches in flight at a replica of a stage: the machines from this stage on, shared by its replicas.

        Of the input stage NOAM (section 3.2); every stage behind it holds those that are still to come to it.
        """
        behind = sum(one.replicas for one in self.layout.stages[stage:])
        mine = math.ceil(behind / self.replicas(stage))
        if self.in_flight is None:
            return mine
        admitted = self.in_flight * self.replicas(0)
        return max(1, min(mine, math.ceil(admitted / self.replicas(stage))))

    def forwarded(self, stage: int, replica: int, k: int) -> int:
        """How many forward passes come before backward pass k; k = -1: none."""
        count = self.count(stage, replica)
        if k < 0:
            return 0
        ahead = count if self.schedule == "gpipe" else min(k + self.window(stage), count)
        if self.flush is None:
            return ahead
        share = self.flush // self.replicas(stage)
        return min(ahead, (k // share + 1) * share)

    def ops(self, stage: int, replica: int) -> Iterator[Op]:
        """All passes of a rank, in order."""
        done = 0
        for k in range(self.count(stage, replica)):
            for forward in range(done, ahead := self.forwarded(stage, replica, k)):
                yield Op(FORWARD, forward)
            done = ahead
            yield Op(BACKWARD, k)

    def most_in_flight(self, stage: int) -> int:
        """Minibatches between their forward and backward pass that a replica has at once, at most."""
        most = self.window(stage) if self.schedule != "gpipe" else not_none(self.flush) // self.replicas(stage)
        share = self.flush // self.replicas(stage) if self.flush else most
        return min(most, share, self.count(stage, 0))

    def stashes(self, stage: int, replica: int = 0) -> int:
        """Versions of a stage's weights that a replica holds besides the latest, at most, in a long run.

        Found by going through the passes of one that is long enough to be in its steady state.
        """
        if self.semantics == "naive":
            return 0
        rounds = 4 * (self.window(0) + self.window(stage) + 1)
        plan = replace(self, minibatches=rounds * self.aligned)
        latest, most, flying = 0, 0, dict[int, int]()

        def reach(version: int, forwarded: int) -> None:
            nonlocal latest, most
            while latest < version:
                most = max(most, len({*flying.values(), *plan.versions_to_come(stage, replica, forwarded, latest)}))
                latest += 1

        forwarded = 0
        for kind, k in plan.ops(stage, replica):
            if kind == FORWARD:
                reach(version := plan.version(stage, k, replica), forwarded)
                flying[k], forwarded = version, k + 1
                continue
            reach(plan.applied(stage, k), forwarded)
            del flying[k]
            if plan.replicas(stage) == 1:  # nobody to wait for
                reach(plan.applied(stage, k + 1), forwarded)
        return most

    def versions_to_come(self, stage: int, replica: int, forwarded: int, latest: int) -> Iterator[int]:
        """Those up to the latest that the forward passes after the first `forwarded` use, in order, some repeatedly."""
        for k in range(forwarded, self.count(stage, replica)):
            if (version := self.version(stage, k, replica)) > latest:
                return
            yield version

    # --- updates
    def group(self, stage: int) -> int:
        """Minibatches of an update."""
        return self.flush or self.replicas(stage)

    def update_of(self, stage: int, k: int) -> int:
        """The update, counted from 0, that the gradient of a rank's k-th minibatch goes into."""
        return k // (self.group(stage) // self.replicas(stage))

    def updates(self, stage: int) -> int:
        """Updates of the whole run; the last may be of a part of its group."""
        return math.ceil(self.minibatches / self.group(stage))

    def summands(self, stage: int, update: int) -> int:
        """Minibatches of that update."""
        group = self.group(stage)
        return min(group, self.minibatches - update * group)

    def overlaps(self, stage: int) -> bool:
        """Whether replicas of a stage go on while they synchronise."""
        flushes = self.flush is not None
        return self.overlap and not flushes and self.replicas(stage) > 1 and self.window(stage) > 1

    def version(self, stage: int, k: int, replica: int) -> int:
        """The version of the weights that a rank's k-th forward pass uses."""
        if self.semantics == "vertical_sync" and stage > 0:
            minibatch = self.minibatch(stage, replica, k)
            input_replicas = self.replicas(0)
            seen = self._local_version(0, minibatch // input_replicas) * self.group(0)
            return seen // self.group(stage)
        return self._local_version(stage, k)

    def _local_version(self, stage: int, k: int) -> int:
        if self.flush is not None:
            return self.update_of(stage, k)
        return max(0, k - self.window(stage) + 1 - self.overlaps(stage))

    def applied(self, stage: int, k: int) -> int:
        """How many updates a rank has applied, at least, when its k-th backward pass begins: all before its own."""
        return self.update_of(stage, k)

    # --- where a run may stop
    @property
    def aligned(self) -> int:
        """Minibatches after which no stage is in the middle of an update, and every multiple of them."""
        return math.lcm(*(self.group(stage) for stage in range(len(self.layout.stages))))

    def stop_at(self, minibatches: int) -> int:
        """The minibatches after which ranks stop where they were asked to stop after so many: no update is half done.

        Those left come right after the stop. At the end of the run all are done.
        """
        return minibatches if minibatches >= self.minibatches else minibatches - minibatches % self.aligned

    def next_stop(self, minibatch: int, iteration: int) -> int:
        """The minibatches after which a run stops first behind this one, if it stops after whole iterations of so many
        minibatches."""
        iterations = minibatch // iteration + 1
        while (stop := self.stop_at(iterations * iteration)) <= minibatch:
            iterations += 1
        return stop

    def forwarded_before(self, stage: int, minibatch: int, stop: int) -> bool:
        """Whether a stage's forward pass of a minibatch comes before a stop after so many minibatches."""
        replica = minibatch % self.replicas(stage)
        last = self.count(stage, replica, stop) - 1
        return minibatch // self.replicas(stage) < self.forwarded(stage, replica, last)


def flush_of(layout: Layout) -> int:
    """Minibatches of a flush where nobody says: one a rank, and so many more that replicas have equal shares."""
    group = Plan(layout, 1).aligned
    return -(-layout.ranks // group) * group
