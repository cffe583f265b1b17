"""Nodes that share hosts: closed forms, waits, and a testbed's network."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.core.errors import InputError
from repro.experiment import testbeds
from repro.fabric.virtual import modelled
from repro.fabric.virtual.fabric import Network, run
from tests.support import forms, probes
from tests.support.virtual import ALPHA, BETA, KB, close, message

LOCAL_ALPHA, LOCAL_BETA = 1e-4, 1e-7


def shared(hosts: int | None, local_beta: float = LOCAL_BETA) -> Network:
    return Network(ALPHA, BETA, hosts=hosts, local_alpha=LOCAL_ALPHA, local_beta=local_beta)


def all_pull(fabric, nbytes: int) -> float:
    """Every rank receives a block from every other rank; returns the time of the last one."""
    p, me = fabric.size, fabric.rank
    pulls = [
        fabric.irecv(torch.empty(nbytes, dtype=torch.uint8, device="meta"), rank) for rank in range(p) if rank != me
    ]
    for step in range(1, p):
        fabric.isend(torch.empty(nbytes, dtype=torch.uint8, device="meta"), (me + step) % p)
    fabric.wait_all(pulls)
    return fabric.now()


@pytest.mark.parametrize("p, hosts", [(2, 2), (6, 3), (8, 8), (12, 4), (16, 8), (5, None), (4, 1), (3, 8)])
@pytest.mark.parametrize("local_beta", [0.0, LOCAL_BETA, 50 * BETA])
def test_an_all_pull_is_the_closed_form(p, hosts, local_beta):
    n = 4 * 250 * p
    form = forms.all_pull(p, n, ALPHA, BETA, hosts, LOCAL_ALPHA, local_beta)
    assert max(run(p, lambda fabric: all_pull(fabric, n // p), shared(hosts, local_beta))) == close(form)


def test_the_form_by_hand():
    """72 nodes on 8 hosts: a host's 9 nodes get 63 blocks each through one NIC; alone on hosts, 71 blocks a NIC."""
    block = 4 * 1000
    assert forms.all_pull(72, 72 * block, ALPHA, BETA, 8) == close(ALPHA + 9 * 63 * block * BETA)
    assert forms.all_pull(72, 72 * block, ALPHA, BETA) == close(ALPHA + 71 * block * BETA)
    assert [forms.on_host(12, 8, host) for host in range(8)] == [2] * 4 + [1] * 4
    assert forms.all_pull(1, block, ALPHA, BETA, 8) == 0.0


@settings(max_examples=50)
@given(p=st.integers(2, 14), hosts=st.integers(1, 6))
def test_with_unequal_hosts_the_form_is_a_lower_bound(p, hosts):
    n = 4 * 50 * p
    last = max(run(p, lambda fabric: all_pull(fabric, n // p), shared(hosts)))
    form = forms.all_pull(p, n, ALPHA, BETA, hosts, LOCAL_ALPHA, LOCAL_BETA)
    assert last >= form * (1 - 1e-12)
    if p % hosts == 0:
        assert last == close(form)


@pytest.mark.parametrize("p, hosts", [(4, 2), (9, 3), (12, 8), (6, None)])
def test_one_node_pulls_alone(p, hosts):
    n = 4 * 250 * p

    def main(fabric):
        block = torch.empty(n // p, dtype=torch.uint8, device="meta")
        if fabric.rank:
            fabric.isend(block, 0)
            return 0.0
        fabric.wait_all([fabric.irecv(block, rank) for rank in range(1, p)])
        return fabric.now()

    assert run(p, main, shared(hosts))[0] == close(forms.one_pulls(p, n, ALPHA, BETA, hosts, LOCAL_ALPHA, LOCAL_BETA))


def test_nodes_of_a_host_take_turns_at_its_nic_but_not_with_its_memory():
    """Hosts of ranks 0, 2 and of 1, 3: 0 and 2 both send a message to the other host, and 0 one to 2."""

    def main(fabric):
        if fabric.rank in (0, 2):
            work = fabric.isend(message(KB), fabric.rank + 1)
            if fabric.rank == 0:
                fabric.send(message(KB), 2)
            else:
                fabric.recv(message(KB), 0)
            work.wait()
        else:
            fabric.recv(message(KB), fabric.rank - 1)
        return fabric.now()

    left, first, second, last = run(4, main, shared(2))
    assert left == close(KB * BETA)
    assert (first, last) == (close(ALPHA + KB * BETA), close(ALPHA + 2 * KB * BETA))
    assert second == close(2 * KB * BETA)  # its own message leaves after rank 0's
    alone = run(4, main, Network(ALPHA, BETA))
    assert alone[1] == alone[3] == close(ALPHA + KB * BETA)


TESTBED = probes.TESTBED | {"alpha_s": ALPHA, "beta_s_per_byte": BETA}


def network_of(**entries) -> Network:
    return modelled.virtual_network(testbeds.testbed_of(TESTBED | entries))


def test_a_testbed_s_network():
    assert network_of() == Network(ALPHA, BETA)
    assert network_of(fair=True) == Network(ALPHA, BETA, fair=True)
    uneven = testbeds.testbed_of(TESTBED | {"alpha_s": ALPHA, "fair": True, "share_spread": 0.1})
    assert modelled.virtual_network(uneven, 3) == Network(ALPHA, BETA, fair=True, spread=0.1, seed=3)
    entries = {"hosts": 8, "local_alpha_s": LOCAL_ALPHA, "local_beta_s_per_byte": LOCAL_BETA}
    assert network_of(**entries) == network_of(**entries, startup_s=3e-3) == shared(8)
    assert network_of(hosts=None, fair=False, short_bytes=None) == Network(ALPHA, BETA)


@pytest.mark.parametrize("entries, complaint", [
    ({"hosts": 0}, "testbed.hosts=0: must be 1 or more"),
    ({"share_spread": 0.1}, "testbed.share_spread=0.1: needs testbed.fair=true"),
    ({"share_spread": -1, "fair": True}, "testbed.share_spread=-1: must be 0 or more"),
    ({"startup_s": float("inf")}, "testbed.startup_s=inf: must be a finite number"),
])  # fmt: skip
def test_invalid_entries_of_a_testbed_are_refused(entries, complaint):
    with pytest.raises(InputError, match=complaint):
        testbeds.testbed_of(TESTBED | entries)


@pytest.mark.parametrize("p, hosts", [(4, 2), (6, 3), (16, 8), (5, None)])
def test_an_all_pull_over_fair_links_takes_as_long_and_ends_together(p, hosts):
    n = 4 * 250 * p
    network = replace(shared(hosts), fair=True)
    ends = run(p, lambda fabric: all_pull(fabric, n // p), network)
    assert ends == [close(forms.all_pull(p, n, ALPHA, BETA, hosts, LOCAL_ALPHA, LOCAL_BETA))] * p


def test_a_startup_is_a_fixed_cost():
    assert modelled.virtual_costs(testbeds.testbed_of(TESTBED)).seconds("startup") == 0.0
    assert modelled.virtual_costs(testbeds.testbed_of(TESTBED | {"startup_s": 3e-3})).seconds("startup") == 3e-3


def test_waiting_for_all_is_waiting_for_the_last():
    def main(fabric):
        others = [rank for rank in range(fabric.size) if rank != fabric.rank]
        buffers = [torch.zeros(5, dtype=torch.uint8) for _ in others]
        works = [fabric.irecv(buffer, rank) for buffer, rank in zip(buffers, others)]
        fabric.sleep(ALPHA * fabric.rank)
        sends = [fabric.isend(message(5, fabric.rank), rank) for rank in others]
        fabric.wait_all([*works, *sends])
        fabric.wait_all([])
        assert all(work.done() for work in works) and [int(buffer[0]) for buffer in buffers] == others
        return fabric.now()

    # the last rank to send ends last, and all others receive from it
    ends = run(3, main, Network(ALPHA, BETA))
    assert ends[0] == close(2 * ALPHA + ALPHA + 5 * BETA) and ends[1] == close(ends[0] + 5 * BETA)


def test_a_short_message_takes_no_share_and_keeps_the_order_of_its_tag():
    """Rank 0 sends 2,000 bytes to rank 1, then 8 bytes on another tag and 8 on the same one."""
    alpha, beta = 1.0, 1e-3

    def times(short: int) -> list[float]:
        def main(fabric):
            if fabric.rank == 0:
                works = [fabric.isend(torch.zeros(250, dtype=torch.float64), 1, tag=0)]
                works += [fabric.isend(torch.zeros(1, dtype=torch.float64), 1, tag=tag) for tag in (1, 0)]
                fabric.wait_all(works)
                return None
            arrivals = []
            for tag, size in ((1, 1), (0, 250), (0, 1)):
                fabric.recv(torch.zeros(size, dtype=torch.float64), 0, tag=tag)
                arrivals.append(fabric.now())
            return arrivals

        return run(2, main, Network(alpha, beta, fair=True, short=short))[1]

    passed, long, behind = times(8)
    assert passed == pytest.approx(alpha + 8 * beta)
    assert long == pytest.approx(alpha + 2000 * beta) and behind == pytest.approx(alpha + 2008 * beta)
    assert times(0)[0] == pytest.approx(alpha + 2008 * beta)
