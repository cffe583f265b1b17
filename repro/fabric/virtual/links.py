"""Network models that serve messages first come first served: full-duplex NICs of nodes or hosts, and a congested
switch."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

from repro.fabric.virtual.network import Network
from repro.fabric.virtual.scheduler import Scheduler


class Links:
    """Computes when messages leave and arrive (docs/design.md, Virtual network):

    tx = max(ready, tx_free);  rx = max(tx + alpha, rx_free);  done = rx + n * beta

    so that p messages of n bytes to one node take alpha + p * n * beta.

    With `network.hosts` the nodes of a host share its NIC. A message between two of them goes through the host's
    memory, which serves one message at a time:

    begin = max(ready, memory_free);  left = begin + n * local_beta;  done = left + local_alpha

    With `network.local_links` the memory is the sender's own link.
    """

    def __init__(self, scheduler: Scheduler, network: Network, size: int):
        self.scheduler, self.network, self.beta = scheduler, network, network.beta
        self.size, self.hosts = size, network.hosts or size  # rank r is on host r mod hosts
        self.tx_free = [0.0] * self.hosts
        self.rx_free = [0.0] * self.hosts
        self.memory_free = [0.0] * size
        self.last_arrival: dict[Hashable, float] = {}  # by (sender, receiver, lane)
        self.messages = 0

    def transmit(
        self,
        source: int,
        to: int,
        nbytes: int,
        deliver: Callable[[], None],
        left: Callable[[], None],
        lane: Hashable = None,
    ) -> None:
        """Send now. `left` runs when the last byte has left the sender, `deliver` when the message has arrived.

        lane: a channel and tag, whose messages must arrive in order.
        """
        self.messages += 1
        here, there = source % self.hosts, to % self.hosts
        if source == to:
            self.scheduler.at(self.scheduler.now, to, deliver)
            self.scheduler.at(self.scheduler.now, source, left)
        elif here == there:
            link = source if self.network.local_links else here
            end = max(self.scheduler.now, self.memory_free[link]) + nbytes * self.network.local_beta
            self.memory_free[link] = end
            self.scheduler.at(end + self.network.local_alpha, to, deliver)
            self.scheduler.at(end, source, left)
        else:
            self.between_hosts(source, to, nbytes, deliver, left, lane)

    def between_hosts(
        self, source: int, to: int, nbytes: int, deliver: Callable[[], None], left: Callable[[], None], lane: Hashable
    ) -> None:
        """`transmit` between the NICs of two hosts."""
        scheduler, network, host = self.scheduler, self.network, source % self.hosts
        wire = nbytes * self.beta
        now, free = scheduler.now, self.tx_free[host]
        tx = now if now > free else free
        self.tx_free[host] = tx + wire
        arrival = tx + network.alpha
        if network.by_size or network.lost:
            arrival = self.in_order(source, to, lane, tx + self.latency(source, to, nbytes))
        scheduler.at(arrival, to, partial(self._head_arrives, to, wire, deliver))
        scheduler.at(tx + wire, source, left)

    def latency(self, source: int, to: int, nbytes: int) -> float:
        """The latency of a message that is sent now, with the wait for a lost packet."""
        latency = self.network.latency(nbytes)
        return latency + self.network.resend if self.network.lost and self._loses(source, to) else latency

    def _loses(self, source: int, to: int) -> bool:
        """Whether a message that is sent now loses a packet. It follows from the time, so that a resumed run, whose
        messages are at the same times, loses the same ones."""
        text = f"{self.network.seed} {source} {to} {self.scheduler.now!r}"
        draw = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
        return draw < self.network.lost * 2**64

    def in_order(self, source: int, to: int, lane: Hashable, arrival: float) -> float:
        """The arrival time, delayed until the previous message of the lane has arrived, as MPI's ordering requires."""
        key = source, to, lane
        self.last_arrival[key] = arrival = max(arrival, self.last_arrival.get(key, 0.0))
        return arrival

    def _head_arrives(self, to: int, wire: float, deliver: Callable[[], None]) -> None:
        """An event of its own, so that receivers serve messages in order of arrival, not of sending."""
        host = to % self.hosts
        now, free = self.scheduler.now, self.rx_free[host]
        self.rx_free[host] = done = (now if now > free else free) + wire
        self.scheduler.at(done, to, deliver)


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
