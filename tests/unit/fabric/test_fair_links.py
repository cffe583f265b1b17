"""Fair links: closed forms, the textbook's example, conservation, max-min fairness, determinism."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.fabric.virtual.fabric import Network, run
from tests.support import forms
from tests.support.virtual import ALPHA, BETA, KB, close

FAIR = Network(ALPHA, BETA, fair=True)


def meta(nbytes: int) -> torch.Tensor:
    return torch.empty(nbytes, dtype=torch.uint8, device="meta")


def arrivals(size: int, network: Network, sent: list[tuple[float, int, int, int]]) -> list[float]:
    """The arrival times of messages (time of the send, from, to, bytes), each with its own tag."""

    def main(fabric):
        times = {}

        def get(tag: int, source: int, nbytes: int) -> None:
            fabric.recv(meta(nbytes), source, tag)
            times[tag] = fabric.now()

        mine = [(tag, one) for tag, one in enumerate(sent) if one[2] == fabric.rank]
        tasks = [fabric.spawn(lambda tag=tag, one=one: get(tag, one[1], one[3])) for tag, one in mine]
        for tag, (at, source, to, nbytes) in enumerate(sent):
            if source == fabric.rank:
                fabric.sleep(max(0.0, at - fabric.now()))
                fabric.isend(meta(nbytes), to, tag)
        for task in tasks:
            task.join()
        return times

    times: dict[int, float] = {}
    for one in run(size, main, network):
        times |= one
    return [times[tag] for tag in range(len(sent))]


def together(*flows: tuple[int, int, int]) -> list[tuple[float, int, int, int]]:
    return [(0.0, *flow) for flow in flows]


@pytest.mark.parametrize("n", [0, 1, 99, KB])
def test_a_lone_message_takes_as_long_as_on_unshared_links_to_the_bit(n):
    assert arrivals(2, FAIR, together((0, 1, n))) == arrivals(2, Network(ALPHA, BETA), together((0, 1, n)))


@pytest.mark.parametrize("flows", [1, 2, 5])
@pytest.mark.parametrize("way", ["out", "in"])
def test_flows_of_one_link_end_together(flows, way):
    sent = together(*((0, i, KB) if way == "out" else (i, 0, KB) for i in range(1, flows + 1)))
    assert arrivals(flows + 1, FAIR, sent) == [close(ALPHA + flows * KB * BETA)] * flows


def test_flows_between_switches_share_their_trunk():
    """Two flows to the right over a trunk share it; one to the left, or between hosts of a switch, does not."""
    switches = replace(FAIR, switch_hosts=2)
    times = arrivals(4, switches, together((0, 2, KB), (1, 3, KB), (2, 0, KB), (3, 1, KB)))
    assert times == [close(ALPHA + 2 * KB * BETA)] * 4
    assert arrivals(4, switches, together((0, 3, KB), (3, 0, KB), (1, 0, KB)))[0] == close(ALPHA + KB * BETA)
    chain = replace(FAIR, switch_hosts=1)  # the flows over one trunk each are faster than what the third leaves them
    assert arrivals(3, chain, together((0, 2, KB), (0, 1, KB), (1, 2, KB))) == [close(ALPHA + 2 * KB * BETA)] * 3


def test_a_ring_over_chained_switches_is_slow_only_where_ranks_are_not_in_their_order():
    def ring(network: Network) -> float:
        vector = torch.empty(32_000, device="meta")
        return max(run(32, lambda fabric: (fabric.allreduce(vector, algorithm="ring"), fabric.now())[1], network))

    one = ring(Network(0.0, BETA, fair=True))
    chained = Network(0.0, BETA, fair=True, switch_hosts=8)
    assert ring(chained) == close(one)
    assert ring(replace(chained, shuffled=True)) > 5 * one


def test_three_flows_over_two_links():
    """Links out of 0 and into 3: A uses the first, C the second, B both, and each gets half.

    With two more flows on the first link B gets a quarter of it, and C three quarters of the second.
    """
    a, b, c = (0, 1, KB), (0, 3, KB), (2, 3, KB)
    assert arrivals(4, FAIR, together(a, b, c)) == [close(ALPHA + 2 * KB * BETA)] * 3
    of_a, of_b, of_c, *_ = arrivals(6, FAIR, together(a, b, c, (0, 4, KB), (0, 5, KB)))
    assert of_c == close(ALPHA + 4 / 3 * KB * BETA)
    assert [of_a, of_b] == [close(ALPHA + 4 * KB * BETA)] * 2  # the first link is full until all of its four end


def test_shares_change_when_a_flow_ends_or_starts():
    short, long = arrivals(3, FAIR, together((0, 1, KB), (0, 2, 3 * KB)))
    assert (short, long) == (close(ALPHA + 2 * KB * BETA), close(ALPHA + 4 * KB * BETA))
    # alone for half of its time, then two of them, then alone again
    first, second = arrivals(3, FAIR, [(0.0, 0, 1, KB), (KB * BETA / 2, 0, 2, KB)])
    assert (first, second) == (close(ALPHA + 1.5 * KB * BETA), close(ALPHA + 2 * KB * BETA))


def test_flows_that_share_no_link_are_independent():
    alone, *_ = arrivals(5, FAIR, [(0.0, 0, 1, KB), (0.0, 2, 3, KB), (KB * BETA / 3, 2, 4, KB)])
    assert alone == ALPHA + KB * BETA


def test_messages_of_a_connection_are_sequential_and_have_one_share():
    """Three from 0 to 1, one from 0 to 2: half of the link for each connection."""
    *three, other = arrivals(3, FAIR, together((0, 1, KB), (0, 1, KB), (0, 1, KB), (0, 2, KB)))
    assert three == [close(ALPHA + n * KB * BETA) for n in (2, 3, 4)] and other == close(ALPHA + 2 * KB * BETA)


def test_nodes_of_a_host_share_its_link():
    """Ranks 0, 2 and 1, 3 are on two hosts: two flows of one link. 0 to 2 goes through the host's memory."""
    network = replace(FAIR, hosts=2, local_beta=BETA / 2)
    times = arrivals(4, network, together((0, 1, KB), (2, 3, KB), (0, 2, KB)))
    assert times == [close(ALPHA + 2 * KB * BETA)] * 2 + [close(KB * BETA / 2)]


@pytest.mark.parametrize("p, hosts", [(6, 3), (9, 3), (16, 8), (5, None)])
def test_a_ring_over_shared_hosts_is_the_closed_form_of_fluids(p, hosts):
    """In a hop every node sends a block to the next host, so all blocks of a host share its link."""
    block = 4 * 1000
    network = replace(FAIR, hosts=hosts)

    def main(fabric):
        fabric.allreduce(torch.empty(p * block // 4, device="meta"), algorithm="ring")
        return fabric.now()

    form = 2 * (p - 1) * (ALPHA + forms.on_host(p, hosts) * block * BETA)
    assert run(p, main, network) == [close(form)] * p


@pytest.mark.parametrize("size", [3, 6])
@settings(max_examples=40)
@given(data=st.data())
def test_all_messages_arrive_within_the_links_capacity_and_two_runs_are_the_same(size, data):
    rank, nbytes = st.integers(0, size - 1), st.integers(0, 5 * KB)
    flow = st.tuples(st.integers(0, 20).map(lambda at: at * 1e-3), rank, rank, nbytes)
    sent = sorted(data.draw(st.lists(flow, min_size=1, max_size=12)))
    network = replace(FAIR, hosts=data.draw(st.sampled_from([None, 2])), short=data.draw(st.sampled_from([0, 500])))
    times = arrivals(size, network, sent)
    assert times == arrivals(size, network, sent)
    hosts = network.hosts or size
    over = [one for one in zip(sent, times) if one[0][1] % hosts != one[0][2] % hosts and one[0][3] > network.short]
    for (at, *_, nbytes), arrived in over:
        assert arrived >= (at + ALPHA + nbytes * BETA) * (1 - 1e-12)
    for host in range(hosts):
        for end in (1, 2):  # out of it, into it
            through = [(one, arrived) for one, arrived in over if one[end] % hosts == host]
            if through:
                least = min(at for (at, *_), _ in through) + ALPHA + sum(one[3] for one, _ in through) * BETA
                assert max(arrived for _, arrived in through) >= least * (1 - 1e-12)


@settings(max_examples=60)
@given(data=st.data(), spread=st.sampled_from([0.0, 0.01, 0.3, 2.0]), seed=st.integers(0, 99))
def test_rates_are_max_min_fair_for_their_weights(data, spread, seed):
    """Every flow has a saturated link on which no flow has more for its weight."""
    size = 5
    pairs = [(source, to) for source in range(size) for to in range(size) if source != to]
    flows = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=8, unique=True))
    rates, weights = _rates_of(size, flows, replace(FAIR, spread=spread, seed=seed))
    assert set(weights.values()) == {1.0} if not spread else len(set(weights.values())) == len(flows)
    for source, to in flows:
        bottleneck = False
        for end, node in ((0, source), (1, to)):
            there = {flow: rate for flow, rate in rates.items() if flow[end] == node}
            assert sum(there.values()) <= 1 + 1e-9
            most = max(rate / weights[flow] for flow, rate in there.items())
            full = sum(there.values()) >= 1 - 1e-9
            bottleneck |= full and rates[source, to] / weights[source, to] >= most * (1 - 1e-9)
        assert bottleneck


def test_shares_are_drawn_from_the_seed():
    flows = together(*((i, 0, KB) for i in range(1, 5)))
    uneven = replace(FAIR, spread=0.3, seed=1)
    times = arrivals(5, uneven, flows)
    assert times == arrivals(5, uneven, flows) != arrivals(5, replace(uneven, seed=2), flows)
    assert max(times) == close(ALPHA + 4 * KB * BETA)  # the link is saturated until the last has arrived
    assert len(set(times)) == 4


def _rates_of(
    size: int, flows: list[tuple[int, int]], network: Network
) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]:
    """Rates and weights from the links' state, once all flows have started."""

    def main(fabric):
        for source, to in flows:
            if source == fabric.rank:
                fabric.isend(meta(KB), to)
        fabric.sleep(KB * BETA / 100)
        if fabric.rank == 0:
            at = fabric.world.links.at[:size]
            routes = {(first, last - size): route for there in at for (first, last), route in there.items()}
            rates.update({flow: route.rate for flow, route in routes.items()})
            weights.update({flow: route.weight for flow, route in routes.items()})
        for source, to in flows:
            if to == fabric.rank:
                fabric.recv(meta(KB), source)

    rates: dict[tuple[int, int], float] = {}
    weights: dict[tuple[int, int], float] = {}
    run(size, main, network)
    return rates, weights
