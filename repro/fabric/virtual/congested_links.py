"""A network model with a congested switch: messages slow each other down although they share no NIC."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import NamedTuple

from repro.fabric.virtual.links import Links
from repro.fabric.virtual.network import Network
from repro.fabric.virtual.scheduler import Scheduler


class Waiting(NamedTuple):
    """A message that starts now; fields as of `Links.transmit`."""

    source: int
    to: int
    nbytes: int
    deliver: Callable[[], None]
    left: Callable[[], None]
    lane: Hashable


class CongestedLinks(Links):
    """`Links` where a byte takes beta * `network.slowdown(n)`, with n messages under way when its message starts.

    Messages that start at the same time count for each other. A message is under way until its last byte has left the
    sender, also while it waits for the sender's NIC.
    """

    def __init__(self, scheduler: Scheduler, network: Network, size: int):
        super().__init__(scheduler, network, size)
        self.starting: list[Waiting] = []
        self.under_way = 0

    def between_hosts(
        self, source: int, to: int, nbytes: int, deliver: Callable[[], None], left: Callable[[], None], lane: Hashable
    ) -> None:
        if not self.starting:  # after all other events of this time
            self.scheduler.at(self.scheduler.now, self.size, self._start)
        self.starting.append(Waiting(source, to, nbytes, deliver, left, lane))

    def _start(self) -> None:
        starting, self.starting = self.starting, []
        self.under_way += len(starting)
        self.beta = self.network.beta * self.network.slowdown(self.under_way)
        for flow in starting:
            super().between_hosts(*flow._replace(left=partial(self._left, flow.left)))

    def _left(self, left: Callable[[], None]) -> None:
        self.under_way -= 1
        left()
