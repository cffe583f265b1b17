"""Closed forms of eager-SGD's partial collectives: latency under linear skew, active processes."""

from __future__ import annotations

from repro.core.errors import unknown_name
from repro.fabric.collectives.activation import INITIATORS, MAJORITY, QUORUM, SOLO


def mean_wait_s(initiator: str, p: int, skew_s: float, quorum: int | None = None) -> float:
    """Mean over the ranks of the wait until the round starts, if rank i arrives i x skew_s after the first (Figure 8).

    In units of skew_s: allreduce (p - 1) / 2, solo 0, majority (p^2 - 1) / 6p in expectation, quorum q (q - 1) / 2p.
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
    raise unknown_name("initiator", initiator, [*INITIATORS, "allreduce"])


def active_processes(initiator: str, p: int, quorum: int | None = None) -> float:
    """Expected number of active processes if no two arrive at once (section 6.1; 4.2 rounds majority's to P / 2)."""
    expected = {SOLO: 1.0, MAJORITY: (p + 1) / 2, QUORUM: quorum, "allreduce": p}
    if (active := expected.get(initiator)) is None:
        raise unknown_name("initiator", initiator, expected)
    return float(active)
