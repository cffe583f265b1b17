"""The fast path of ring allreduces has the times of the event simulation to the last bit."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.fabric.base import FabricError
from repro.fabric.collectives import dense as collectives
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.fabric.virtual.fabric import Network, run
from repro.fabric.virtual.ring_fast_path import RingFastPath

seconds = st.sampled_from([0.0, 1e-9, 1e-6, 1e-4, 1e-3]) | st.floats(0, 1e-2)


def ring_of(at_once):
    """The ring of a fabric as it is, or by events alone."""
    return virtual.VirtualFabric.allreduce if at_once else collectives.ring_allreduce


@settings(max_examples=70)
@given(
    p=st.integers(1, 9),
    sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=3),
    alpha=seconds,
    beta=st.sampled_from([0.0, 1e-9, 1e-6]),
    gamma=st.sampled_from([0.0, 1e-10, 3e-6]),
    sync=st.sampled_from([0.0, 1e-4]),
    data=st.data(),
)
def test_times_are_those_of_the_events(p, sizes, alpha, beta, gamma, sync, data):
    """With skew before each ring, and after it a message, a task or another collective that may interfere."""
    costs = Costs(True, {"reduce": gamma}, {"sync": sync})
    skews = [[data.draw(seconds) for _ in range(p)] for _ in sizes]
    actions = st.sampled_from(["nothing", "message", "task", "barrier", "early"])
    what = [[data.draw(actions) for _ in range(p)] for _ in sizes]

    def program(at_once):
        ring = ring_of(at_once)

        def main(fabric):
            log, open_, me = [], [], fabric.rank
            for number, n in enumerate(sizes):
                mine = what[number]
                fabric.sleep(skews[number][me])
                to, source = (me + 2) % p, (me - 2) % p
                if mine[me] == "early":
                    open_.append(fabric.isend(torch.empty(700, device="meta"), to, 100 + number))
                ring(fabric, torch.empty(n, device="meta"))
                log.append(fabric.now())
                if mine[me] == "message":
                    open_.append(fabric.isend(torch.empty(900, device="meta"), to, 100 + number))
                if mine[source] in ("message", "early"):
                    size = 900 if mine[source] == "message" else 700
                    fabric.recv(torch.empty(size, device="meta"), source, 100 + number)
                if mine[me] == "task":
                    task = fabric.spawn(lambda: fabric.sleep(2e-4))
                    fabric.sleep(1e-4)
                    open_.append(task)
                if mine[0] == "barrier":
                    fabric.barrier()
                log.append(fabric.now())
            for one in open_:
                one.join() if hasattr(one, "join") else one.wait()
            return log, fabric.now(), fabric.bytes_sent

        return run(p, main, Network(alpha, beta), costs)

    assert program(True) == program(False)


def count(monkeypatch):
    """Rings that the recurrence has done."""
    done, whole = [], RingFastPath._all_arrived

    def counted(self, ring, last):
        done.append(used := whole(self, ring, last))
        return used

    monkeypatch.setattr(RingFastPath, "_all_arrived", counted)
    return done


@pytest.mark.parametrize("p", [2, 3, 8])
def test_it_is_used_and_leaves_the_links_as_the_events_do(p, monkeypatch):
    done = count(monkeypatch)

    def main(fabric, ring):
        fabric.sleep(1e-5 * (fabric.rank % 3))
        for _ in range(3):
            ring(fabric, torch.empty(1000 * p, device="meta"))
        links = fabric.world.links
        fabric.exchange(None)
        return fabric.now(), fabric.bytes_sent, links.messages, list(links.tx_free), list(links.rx_free)

    network = Network(1e-4, 1e-9)
    assert run(p, lambda f: main(f, ring_of(True)), network) == run(p, lambda f: main(f, ring_of(False)), network)
    assert done == [True] * 3


@pytest.mark.parametrize("changed", [{"fair": True}, {"hosts": 2}, {"by_size": ((1, 1e-4), (9, 2e-4))}])
def test_not_where_messages_meet_by_the_network(changed, monkeypatch):
    done = count(monkeypatch)
    run(4, lambda f: f.allreduce(torch.empty(64, device="meta")), Network(1e-4, 1e-9, **changed))
    assert not done


def test_a_rank_that_never_comes_is_named_as_by_events():
    def main(fabric):
        if fabric.rank != 1:
            fabric.allreduce(torch.empty(9, device="meta"))

    with pytest.raises(FabricError, match=r"deadlock.*tag"):
        run(3, main, Network(1e-4, 1e-9))
