"""The parameters of a modelled network."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """The parameters of a modelled network.

    alpha    latency of a message in seconds, which occupies no NIC
    beta     seconds of a byte
    by_size  (bytes, alpha) in increasing order, instead of one alpha, for a library whose protocol depends on the size
             of a message (eager up to a limit, a handshake above it); interpolated linearly in log(bytes)
    fair     concurrent messages share NICs (`fair_links`) instead of being served one after the other (`links`)
    spread   of a fair network: the standard deviation of the logarithms of the flows' weights
    seed     of the draws of these weights
    short    of a fair network: messages of at most so many bytes take no bandwidth
    hosts    the number of hosts that carry the nodes, rank r on host r mod hosts, and share their NICs; messages within
             a host have local_alpha and local_beta. None: every node is a host
    local_links  nodes of a host have links of their own to each other; else their messages share the host's memory
    switch_hosts  of a fair network: the hosts of each switch of a chain, joined by links of a host's rate; None: one
             switch without limit
    shuffled  hosts are along the chain in an order drawn from the seed, instead of rank order
    congestion  (messages under way at once, how many times as long a byte takes then) in increasing order, of a network
             that is not fair; interpolated linearly in the logarithms from (1, 1), beyond the last as the last
    lost     the share of messages whose last packet is lost, drawn from the seed: they arrive `resend` seconds later,
             when TCP has sent that packet again
    """

    alpha: float
    beta: float
    by_size: tuple[tuple[int, float], ...] = ()
    fair: bool = False
    short: int = 0
    spread: float = 0.0
    seed: int = 0
    hosts: int | None = None
    switch_hosts: int | None = None
    shuffled: bool = False
    local_alpha: float = 0.0
    local_beta: float = 0.0
    local_links: bool = False
    congestion: tuple[tuple[int, float], ...] = ()
    lost: float = 0.0
    resend: float = 0.0

    def latency(self, nbytes: int) -> float:
        """The alpha of a message of `nbytes`."""
        table = self.by_size
        if not table:
            return self.alpha
        place = bisect_right(table, nbytes, key=lambda entry: entry[0])
        if place in (0, len(table)):
            return table[min(place, len(table) - 1)][1]
        (low, before), (high, after) = table[place - 1], table[place]
        return before + (after - before) * math.log(nbytes / low) / math.log(high / low)

    def slowdown(self, messages: int) -> float:
        """How many times as long a byte takes with so many messages under way."""
        table = ((1, 1.0), *self.congestion)
        place = bisect_right(table, messages, key=lambda entry: entry[0])
        if place == len(table):
            return table[-1][1]
        (low, before), (high, after) = table[place - 1], table[place]
        return before * (after / before) ** (math.log(messages / low) / math.log(high / low))
