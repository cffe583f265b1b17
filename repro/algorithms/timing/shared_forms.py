"""Closed forms of pulls from a sharded server whose nodes share hosts; symbols: `repro.algorithms.timing.closed_forms`.

All p nodes serve: each has a p-th of the vector, b = `largest_block(p, n)` bytes of it. Rank r is on host r mod h; m
nodes share a host; `local_alpha` and `local_beta` are of messages within one. Pulls are asked for at no cost.
"""

from __future__ import annotations

from repro.algorithms.timing.collective_forms import largest_block


def on_host(p: int, hosts: int | None, host: int = 0) -> int:
    """Nodes on a host, m: of host 0, which has the most, unless another is given. hosts None: every node is a host."""
    return 1 if hosts is None else len(range(host, p, hosts))


def all_pull(
    p: int,
    n: int,
    alpha: float,
    beta: float,
    hosts: int | None = None,
    local_alpha: float = 0.0,
    local_beta: float = 0.0,
) -> float:
    """All nodes pull the whole vector at once:

        max( alpha + m (p - m) b beta,  local_alpha + m (m - 1) b local_beta )

    Each of a host's m nodes gets p - m blocks through its NIC, and m - 1 through its memory, which is another way. With
    a node a host it is alpha + (p-1)/p n beta. Every node sends to its neighbour first and the next rank's then, so
    that at any moment no two hosts send to one. That holds where h divides p or p <= h; else it is a bound from below,
    of the busiest host.
    """
    block = largest_block(p, n)
    found = 0.0
    for host in range(min(p, hosts or p)):
        m = on_host(p, hosts, host)
        remote = alpha + m * (p - m) * block * beta if p > m else 0.0
        local = local_alpha + m * (m - 1) * block * local_beta if m > 1 else 0.0
        found = max(found, remote, local)
    return found


def one_pulls(
    p: int,
    n: int,
    alpha: float,
    beta: float,
    hosts: int | None = None,
    local_alpha: float = 0.0,
    local_beta: float = 0.0,
) -> float:
    """One node of host 0 pulls the whole vector while nobody else does: max( alpha + (p-m) b beta, local_alpha + (m-1)
    b local_beta ). Hosts share nothing then but its own NIC, which does not rest from the first block on."""
    block, m = largest_block(p, n), on_host(p, hosts)
    remote = alpha + (p - m) * block * beta if p > m else 0.0
    return max(remote, local_alpha + (m - 1) * block * local_beta if m > 1 else 0.0)
