"""The network model in which nodes share a host: its NIC with other hosts' nodes, its memory with each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from repro.fabric.links import Links, Network
from repro.fabric.scheduler import Scheduler


class SharedLinks(Links):
    """As `Links`, but the NICs are the hosts', `network.hosts` of them. Rank r is on host r mod hosts.

    Between hosts a message is one of `Links` between their NICs: what the host's other nodes send, or get, goes first
    where it came first. Between two nodes of a host it goes through the host's memory, which does one after the other:

        begin = max(ready, memory_free);  left = begin + n * local_beta;  done = local_alpha + left
    """

    def __init__(self, scheduler: Scheduler, network: Network, size: int):
        """network.hosts: a whole number, 1 or more."""
        super().__init__(scheduler, network, network.hosts)
        self.memory_free = [0.0] * network.hosts

    def transmit(
        self,
        source: int,
        to: int,
        nbytes: int,
        deliver: Callable[[], None],
        left: Callable[[], None],
        lane: Hashable = None,
    ) -> None:
        """Send now; `left` runs when the sender's NIC or host has let go of the last byte, `deliver` when it is in."""
        scheduler, network = self.scheduler, self.network
        hosts = network.hosts
        here, there = source % hosts, to % hosts
        self.messages += 1
        if source == to:
            scheduler.at(scheduler.now, to, deliver)
            scheduler.at(scheduler.now, source, left)
        elif here == there:
            end = max(scheduler.now, self.memory_free[here]) + nbytes * network.local_beta
            self.memory_free[here] = end
            scheduler.at(end + network.local_alpha, to, deliver)
            scheduler.at(end, source, left)
        else:
            wire = nbytes * network.beta
            tx = max(scheduler.now, self.tx_free[here])
            self.tx_free[here] = tx + wire
            head = partial(self._comes_in, there, to, wire, deliver)
            scheduler.at(tx + network.latency(nbytes), to, head)
            scheduler.at(tx + wire, source, left)

    def _comes_in(self, host: int, to: int, wire: float, deliver: Callable[[], None]) -> None:
        """At its own time, so that a host takes in in order of arrival, not of sending."""
        done = self.rx_free[host] = max(self.scheduler.now, self.rx_free[host]) + wire
        self.scheduler.at(done, to, deliver)
