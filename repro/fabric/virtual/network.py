"""What a modelled network is, for the virtual fabric and for whoever only hands one on."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """alpha: seconds a message needs besides its bytes; beta: seconds a byte. alpha occupies no NIC.

    by_size: (bytes, alpha) in increasing order, in place of the one alpha, for a library that changes its protocol with
    the size of a message (eager up to a limit, a handshake above it); between two sizes straight over log(bytes).
    fair: messages under way share NICs (`fair_links`), in the place of one after the other (`links`).
    spread: of the shares of such a network, none of which are alike then (`fair_links`); seed: of their draws.
    short: bytes up to which a message of such a network takes nobody's share.
    hosts: so many carry the nodes in turn, rank r host r mod hosts, and share their NICs; messages
    within a host have local_alpha and local_beta. None: every node is a host.
    """

    alpha: float
    beta: float
    by_size: tuple[tuple[int, float], ...] = ()
    fair: bool = False
    short: int = 0
    spread: float = 0.0
    seed: int = 0
    hosts: int | None = None
    local_alpha: float = 0.0
    local_beta: float = 0.0

    def latency(self, nbytes: int) -> float:
        """alpha of a message of so many bytes."""
        table = self.by_size
        if not table:
            return self.alpha
        place = bisect_right(table, nbytes, key=lambda entry: entry[0])
        if place in (0, len(table)):
            return table[min(place, len(table) - 1)][1]
        (low, before), (high, after) = table[place - 1], table[place]
        return before + (after - before) * math.log(nbytes / low) / math.log(high / low)
