"""Which receives a rank of a pipeline posts ahead of the passes that need them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from repro.algorithms.pipeline.messages import PREFETCH, Messages
from repro.algorithms.pipeline.passes import BACKWARD, FORWARD, Op


class LookAhead:
    """Posts receives in the order of the passes, and none whose message may still be unsent when the run stops.

    A boundary is the number of minibatches after which the run may stop: every rank has then used what was sent to it.
    """

    def __init__(self, messages: Messages, workers: int):
        """workers: ranks of the run, so many minibatches an iteration."""
        self.messages, self.plan, self.workers = messages, messages.plan, workers
        self.stage, self.replica = messages.stage, messages.replica
        self.restart(0)

    def restart(self, k: int) -> None:
        """Go on from step k, with nothing posted."""
        self._unposted = self._ops(k)

    def _ops(self, k: int) -> Iterator[Op]:
        """This rank's passes that need a message, from step k on."""
        plan = self.plan
        for done in range(k, plan.count(self.stage, self.replica)):
            before = plan.forwarded(self.stage, self.replica, done - 1)
            forwards = (Op(FORWARD, j) for j in range(before, plan.forwarded(self.stage, self.replica, done)))
            yield from filter(self.messages.comes, chain(forwards, [Op(BACKWARD, done)]))

    def boundary(self, k: int) -> int:
        """The minibatches after which the run may stop for the first time behind step k."""
        return self.plan.next_stop(self.plan.minibatch(self.stage, self.replica, k), self.workers)

    def post(self, present: Op, boundary: int) -> None:
        """Post the receive of the pass that comes now, and some of those behind it that are sure to be sent."""
        messages = self.messages
        if messages.comes(present):
            while present not in messages.here and present not in messages.waiting:
                messages.post(next(self._unposted))
        self.post_sure(boundary, PREFETCH + 1)

    def post_sure(self, boundary: int, most: float = math.inf) -> None:
        """Post what is sure to be sent before the run stops at a boundary, until `most` receives are under way."""
        while len(self.messages.waiting) < most and (op := next(self._unposted, None)) is not None:
            if not self._sure(op, boundary):
                self._unposted = chain([op], self._unposted)
                break
            self.messages.post(op)

    def _sure(self, op: Op, boundary: int) -> bool:
        minibatch = self.plan.minibatch(self.stage, self.replica, op.k)
        if op.kind == BACKWARD:
            return minibatch < boundary
        return self.plan.forwarded_before(self.stage - 1, minibatch, boundary)
