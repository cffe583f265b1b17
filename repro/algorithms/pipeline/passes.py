"""A pipeline's static plan: the order of every rank's passes, and the weights that each pass uses.

Both policies of the paper's section 3.3 are static, so every rank computes the whole plan. Replica q of m has the
minibatches q, q + m, ..., and its k-th is k m + q. Step k of a rank consists of the forward passes before its k-th
backward pass, and that pass:

    1f1b        (section 3.3) at start-up as many forward passes as the rank has minibatches in flight, then alternately
                one backward and one forward pass, at the end backward passes only
    gpipe       (beyond the paper; Huang et al., 2019) all forward passes of a flush, then all its backward passes
    1f1b-flush  (beyond the paper; Narayanan et al., 2021) 1F1B within a flush, which ends before the next one starts

An update of a stage's weights uses the mean gradient of a group of minibatches: in 1f1b one of each replica (a round:
docs/errata.md, PD-5), with flushes all of a flush. Version v of a stage's weights contains v updates.
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
    """A layout, the number of minibatches to train on, and their order.

    flush      minibatches of a flush, for schedules with flushes
    in_flight  the most minibatches in flight at a replica of the input stage; None: NOAM
    semantics  the weights that passes use: "stashing" (section 3.4: a backward pass uses those of its forward pass),
               "vertical_sync" (those that the input stage used), "naive" (a backward pass uses the latest)
    overlap    whether replicas continue while they synchronise a round: the forward passes until their next backward
               pass then use the weights before it. No effect with one minibatch in flight
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

    # --- the minibatches of a rank
    def replicas(self, stage: int) -> int:
        return self.layout.stages[stage].replicas

    def count(self, stage: int, replica: int, minibatches: int | None = None) -> int:
        """The number of a replica's minibatches among the first `minibatches` (by default all of the plan)."""
        total = self.minibatches if minibatches is None else minibatches
        return max(0, -((replica - total) // self.replicas(stage)))

    def minibatch(self, stage: int, replica: int, k: int) -> int:
        return k * self.replicas(stage) + replica

    # --- the order of passes
    def window(self, stage: int) -> int:
        """The minibatches in flight at a replica of a stage: the machines from this stage on, divided by its replicas.

        For the input stage this is NOAM (section 3.2).
        """
        machines = sum(later.replicas for later in self.layout.stages[stage:])
        window = math.ceil(machines / self.replicas(stage))
        if self.in_flight is None:
            return window
        admitted = self.in_flight * self.replicas(0)
        return max(1, min(window, math.ceil(admitted / self.replicas(stage))))

    def forwarded(self, stage: int, replica: int, k: int) -> int:
        """The number of forward passes before backward pass k; 0 for k = -1."""
        count = self.count(stage, replica)
        if k < 0:
            return 0
        ahead = count if self.schedule == "gpipe" else min(k + self.window(stage), count)
        if self.flush is None:
            return ahead
        share = self.flush // self.replicas(stage)
        return min(ahead, (k // share + 1) * share)

    def ops(self, stage: int, replica: int) -> Iterator[Op]:
        """All passes of a rank in order."""
        done = 0
        for k in range(self.count(stage, replica)):
            for forward in range(done, ahead := self.forwarded(stage, replica, k)):
                yield Op(FORWARD, forward)
            done = ahead
            yield Op(BACKWARD, k)

    def most_in_flight(self, stage: int) -> int:
        """The most minibatches of a replica that are between their forward and backward pass at once."""
        most = self.window(stage) if self.schedule != "gpipe" else not_none(self.flush) // self.replicas(stage)
        share = self.flush // self.replicas(stage) if self.flush else most
        return min(most, share, self.count(stage, 0))

    def stashes(self, stage: int, replica: int = 0) -> int:
        """The most versions of a stage's weights that a replica holds besides the latest, in a long run."""
        if self.semantics == "naive":
            return 0
        rounds = 4 * (self.window(0) + self.window(stage) + 1)  # enough to reach the steady state
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
            reach(plan.update_of(stage, k), forwarded)
            del flying[k]
            if plan.replicas(stage) == 1:  # no synchronisation to wait for
                reach(plan.update_of(stage, k + 1), forwarded)
        return most

    def versions_to_come(self, stage: int, replica: int, forwarded: int, latest: int) -> Iterator[int]:
        """The versions up to `latest` that the forward passes after the first `forwarded` use, in order."""
        for k in range(forwarded, self.count(stage, replica)):
            if (version := self.version(stage, k, replica)) > latest:
                return
            yield version

    # --- updates
    def group(self, stage: int) -> int:
        """The number of minibatches of an update."""
        return self.flush or self.replicas(stage)

    def update_of(self, stage: int, k: int) -> int:
        """The update, from 0, to which a rank's k-th minibatch contributes.

        Also the number of updates that the rank has applied, at least, when its k-th backward pass starts.
        """
        return k // (self.group(stage) // self.replicas(stage))

    def updates(self, stage: int) -> int:
        """The number of updates of the run; the last may have fewer minibatches."""
        return math.ceil(self.minibatches / self.group(stage))

    def summands(self, stage: int, update: int) -> int:
        """The number of minibatches of an update."""
        group = self.group(stage)
        return min(group, self.minibatches - update * group)

    def overlaps(self, stage: int) -> bool:
        """Whether the replicas of a stage continue while they synchronise."""
        flushes = self.flush is not None
        return self.overlap and not flushes and self.replicas(stage) > 1 and self.window(stage) > 1

    def version(self, stage: int, k: int, replica: int) -> int:
        """The version of the weights in a rank's k-th forward pass."""
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

    # --- possible stops of a run
    @property
    def aligned(self) -> int:
        """A number of minibatches after whose multiples no stage has an incomplete update."""
        return math.lcm(*(self.group(stage) for stage in range(len(self.layout.stages))))

    def stop_at(self, minibatches: int) -> int:
        """The stop for `minibatches`: the last number up to it without incomplete updates; at the run's end all."""
        return minibatches if minibatches >= self.minibatches else minibatches - minibatches % self.aligned

    def next_stop(self, minibatch: int, iteration: int) -> int:
        """The first possible stop after `minibatch`; iteration: minibatches of an iteration."""
        iterations = minibatch // iteration + 1
        while (stop := self.stop_at(iterations * iteration)) <= minibatch:
            iterations += 1
        return stop

    def forwarded_before(self, stage: int, minibatch: int, stop: int) -> bool:
        """Whether a stage's forward pass of a minibatch precedes the stop after `stop` minibatches."""
        replica = minibatch % self.replicas(stage)
        last = self.count(stage, replica, stop) - 1
        return minibatch // self.replicas(stage) < self.forwarded(stage, replica, last)


def flush_of(layout: Layout) -> int:
    """The default number of minibatches of a flush: at least one for each rank, with equal shares for replicas."""
    group = Plan(layout, 1).aligned
    return -(-layout.ranks // group) * group
