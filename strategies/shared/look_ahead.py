"""Posts a pipeline rank's receives ahead of the passes that need them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from repro.algorithms.pipeline.messages import PREFETCH, Messages
from repro.algorithms.pipeline.passes import BACKWARD, FORWARD, Op


class LookAhead:
    """Posts receives in the order of the passes, and none whose message may still be unsent when the run stops.

    A boundary is the number of minibatches after which the run may stop: every rank has then used all its messages.
    """

    def __init__(self, messages: Messages, workers: int):
        """workers: ranks of the run, and minibatches of an iteration."""
        self.messages, self.plan, self.workers = messages, messages.plan, workers
        self.stage, self.replica = messages.stage, messages.replica
        self.restart(0)

    def restart(self, k: int) -> None:
        """Continue from step k, without posted receives."""
        self._unposted = self._ops(k)

    def _ops(self, k: int) -> Iterator[Op]:
        """This rank's passes that need a message, from step k on."""
        plan = self.plan
        for done in range(k, plan.count(self.stage, self.replica)):
            before = plan.forwarded(self.stage, self.replica, done - 1)
            forwards = (Op(FORWARD, j) for j in range(before, plan.forwarded(self.stage, self.replica, done)))
            yield from filter(self.messages.needed, chain(forwards, [Op(BACKWARD, done)]))

    def boundary(self, k: int) -> int:
        """The first boundary after step k."""
        return self.plan.next_stop(self.plan.minibatch(self.stage, self.replica, k), self.workers)

    def post(self, current: Op, boundary: int) -> None:
        """Post the receive of the current pass, and some later ones that are certain to be sent."""
        messages = self.messages
        if messages.needed(current):
            while current not in messages.arrived and current not in messages.waiting:
                messages.post(next(self._unposted))
        self.post_certain(boundary, PREFETCH + 1)

    def post_certain(self, boundary: int, most: float = math.inf) -> None:
        """Post receives of messages that are sent before the boundary, until `most` receives are in progress."""
        while len(self.messages.waiting) < most and (op := next(self._unposted, None)) is not None:
            if not self._certain(op, boundary):
                self._unposted = chain([op], self._unposted)
                break
            self.messages.post(op)

    def _certain(self, op: Op, boundary: int) -> bool:
        minibatch = self.plan.minibatch(self.stage, self.replica, op.k)
        if op.kind == BACKWARD:
            return minibatch < boundary
        return self.plan.forwarded_before(self.stage - 1, minibatch, boundary)
