"""Closed forms of eager-SGD's partial collectives: latency under linear skew, active processes, staleness."""

from __future__ import annotations

import math
from collections.abc import Sequence

from repro.core.errors import unknown
from repro.fabric.collectives.activation import INITIATORS, MAJORITY, QUORUM, SOLO

MESSAGE_BYTES = 16  # of an activation


def mean_wait_s(initiator: str, p: int, skew_s: float, quorum: int | None = None) -> float:
    """Mean over the ranks of the wait until the round starts, where rank i comes i x skew_s after the first (Figure 8).

    A rank that comes after the start waits for nothing. "allreduce": everybody waits for the last.

    allreduce (p - 1) / 2 · solo 0 · majority, in expectation, (p^2 - 1) / 6p · quorum q (q - 1) / 2p, times skew_s.
    So with large skew majority is 3p / (p + 1) times as fast as an allreduce, at most 3 times.
    """
    if initiator == "allreduce":
        initiator, quorum = QUORUM, p
    if initiator == SOLO:
        return 0.0
    if initiator == MAJORITY:
        return skew_s * (p * p - 1) / (6 * p)
    if initiator == QUORUM and quorum is not None:
        return skew_s * quorum * (quorum - 1) / (2 * p)
    raise unknown("initiator", initiator, [*INITIATORS, "allreduce"])


def active_processes(initiator: str, p: int, quorum: int | None = None) -> float:
    """Expected number of active processes where no two come at once (section 6.1): solo 1, majority (p + 1) / 2.

    Section 4.2 rounds the latter to P / 2.
    """
    expected = {SOLO: 1.0, MAJORITY: (p + 1) / 2, QUORUM: quorum, "allreduce": p}
    if (found := expected.get(initiator)) is None:
        raise unknown("initiator", initiator, expected)
    return float(found)


def staleness_bound(delays: Sequence[Sequence[float]], compute_s: float, latency_s: float) -> int:
    """tau of Lemma 5.1 (4) for solo allreduce: no gradient is later than so many rounds. errata.md, EA-3: derived, not
    printed.

    delays: [step][rank], seconds that an injector adds to `compute_s` of every rank's step; latency_s: longest time
    from a round's start to its end on any rank.

    A rank that is not late waits for its round, so it was level with the first at some step k. From there it needs
    the sum over s of compute_s + d(s) to step t, while every round takes at least compute_s + min d: whoever
    initiates it started that step when the round before had ended. So it is behind by at most what its own delays
    exceed the least ones by, over the window that is worst for it, in rounds; and by one round for the latency and
    one for the round under way.
    """
    ranks = range(len(delays[0]))
    least = compute_s + min(min(step) for step in delays)
    worst = 0.0
    for rank in ranks:
        excess = 0.0  # of the window that ends here: the largest sum of consecutive excesses
        for step in delays:
            excess = max(0.0, excess) + step[rank] - min(step)
            worst = max(worst, excess)
    return math.ceil((worst + latency_s) / least) + 1
