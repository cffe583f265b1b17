"""The virtual fabric's link model, and computation on shared resources."""

import pytest
import torch

from repro.fabric.base import ANY_SOURCE
from repro.fabric.virtual.fabric import Network, run
from tests.support.virtual import ALPHA, BETA, KB, NETWORK, close, message

# links


@pytest.mark.parametrize("n", [0, 1, KB])
def test_one_message_takes_alpha_plus_n_beta(n):
    def main(fabric):
        if fabric.rank == 0:
            work = fabric.isend(message(n), 1)
            assert fabric.now() == 0  # isend takes no time
            work.wait()
        else:
            fabric.recv(message(n), 0)
        return fabric.now()

    assert run(2, main, NETWORK) == [close(n * BETA), close(ALPHA + n * BETA)]  # alpha occupies no NIC


def test_a_protocol_that_changes_with_the_size():
    """alpha of 1 ms up to 1 KB, 3 ms from 16 KB on, linear in the logarithm of the size between them."""
    network = Network(9.0, BETA, ((1024, 1e-3), (16384, 3e-3)))
    assert [network.latency(n) for n in (1, 1024, 4096, 16384, 10**6)] == [
        close(1e-3),
        close(1e-3),
        close(2e-3),
        close(3e-3),
        close(3e-3),
    ]
    assert Network(ALPHA, BETA).latency(5) == ALPHA

    def main(fabric):
        if fabric.rank == 0:
            fabric.send(message(4096), 1)
        else:
            fabric.recv(message(4096), 0)
        return fabric.now()

    assert run(2, main, network)[1] == close(2e-3 + 4096 * BETA)


@pytest.mark.parametrize("p", [1, 2, 7])
def test_incast(p):
    """p pushes to one node: alpha + p n beta; the i-th has arrived after alpha + i n beta."""

    def main(fabric):
        if fabric.rank < p:
            fabric.send(message(KB), p)
            return fabric.now()
        times = []
        for _ in range(p):
            fabric.recv(message(KB), ANY_SOURCE)
            times.append(fabric.now())
        return times

    *senders, server = run(p + 1, main, NETWORK)
    assert senders == [close(KB * BETA)] * p
    assert server == [close(ALPHA + i * KB * BETA) for i in range(1, p + 1)]


def test_one_nic_sends_one_after_the_other():
    def main(fabric):
        if fabric.rank == 0:
            for send in [fabric.isend(message(KB), to) for to in (1, 2, 3)]:
                send.wait()
        else:
            fabric.recv(message(KB), 0)
        return fabric.now()

    assert run(4, main, NETWORK) == [close(3 * KB * BETA)] + [close(ALPHA + i * KB * BETA) for i in (1, 2, 3)]


def test_cut_through():
    """A long message and a short one behind it: the short one waits for the long one's bytes, not for its alpha."""

    def main(fabric):
        if fabric.rank == 0:
            fabric.isend(message(10 * KB), 1)
            fabric.isend(message(KB), 1, 1)
            return None
        times = []
        for tag, n in ((0, 10 * KB), (1, KB)):
            fabric.recv(message(n), 0, tag)
            times.append(fabric.now())
        return times

    assert run(2, main, NETWORK)[1] == [close(ALPHA + 10 * KB * BETA), close(ALPHA + 11 * KB * BETA)]


def test_a_busy_receiver_serves_in_order_of_arrival():
    def main(fabric):
        if fabric.rank == 1:  # its head arrives second, though its rank is lower
            fabric.sleep(0.5 * KB * BETA)
        if fabric.rank:
            fabric.send(message(KB), 0)
            return None
        sources = [fabric.recv(message(KB), ANY_SOURCE) for _ in range(2)]
        return sources, fabric.now()

    sources, time = run(3, main, NETWORK)[0]
    assert sources == [2, 1] and time == close(ALPHA + 2 * KB * BETA)


def test_messages_to_oneself_take_no_time():
    def main(fabric):
        incoming = message(5)
        receive = fabric.irecv(incoming, fabric.rank)
        fabric.send(message(5, 9), fabric.rank)
        receive.wait()
        return fabric.now(), incoming[0].item()

    assert run(2, main, NETWORK) == [(0.0, 9)] * 2


def test_a_sent_buffer_may_change():
    """The message has the contents of the time of the send."""

    def main(fabric):
        buffer = torch.ones(3)
        if fabric.rank == 0:
            work = fabric.isend(buffer, 1)
            work.wait()
            buffer.zero_()
        else:
            fabric.recv(buffer.zero_(), 0)
            return buffer.tolist()

    assert run(2, main, NETWORK)[1] == [1, 1, 1]


# computation


def computing(fabric, log, resource="device", delay=0.0):
    """A function for a task: compute for a second, after a delay; logs (task, time of its end)."""

    def work():
        fabric.sleep(delay)
        with fabric.compute(1.0, resource):
            pass
        log.append((fabric.current_task(), fabric.now()))
        return fabric.now()

    return work


def test_tasks_on_one_resource_take_turns_and_on_two_overlap():
    def main(fabric):
        ends = {}
        for pair in (("device", "device"), ("device", "host"), (None, None), ("device", None)):
            start = fabric.now()
            tasks = [fabric.spawn(computing(fabric, [], resource), str(resource)) for resource in pair]
            ends[pair] = [task.join() - start for task in tasks]
        return ends

    for ends in run(2, main, NETWORK):  # ranks do not share resources
        assert sorted(ends["device", "device"]) == [1.0, 2.0]
        assert ends["device", "host"] == ends[None, None] == ends["device", None] == [1.0, 1.0]


def test_a_resource_is_first_come_first_served_by_all_groups_of_a_rank():
    def main(fabric):
        log, group = [], fabric.subgroup([1, 0])
        arrivals = (("a", 0.3, fabric), ("b", 0.1, group), ("c", 0.2, fabric))
        for task in [fabric.spawn(computing(end, log, delay=delay), name) for name, delay, end in arrivals]:
            task.join()
        return log

    assert run(2, main, NETWORK) == [[("b", close(1.1)), ("c", close(2.1)), ("a", close(3.1))]] * 2


def test_a_task_cancelled_before_or_while_it_computes_releases_the_resource():
    def main(fabric):
        log = []
        tasks = [fabric.spawn(computing(fabric, log), name) for name in "abcd"]
        fabric.sleep(0.5)
        tasks[1].cancel()  # it waits
        fabric.sleep(1.0)
        tasks[2].cancel()  # it computes
        for task in tasks:
            task.join()
        return log

    (log,) = run(1, main, NETWORK)
    assert [name for name, _ in log] == ["a", "d"] and log[0][1] == 1.0 and log[1][1] <= 3.0


@pytest.mark.parametrize("fair", [False, True])
def test_messages_of_a_tag_arrive_in_order_despite_latencies_by_size(fair):
    """A long message needs a handshake; a short one after it arrives after it on its tag, before it on another."""
    network = Network(0.0, 1e-6, by_size=((10, 0.0), (1000, 1.0)), fair=fair)

    def main(fabric):
        if fabric.rank == 0:
            fabric.wait_all([fabric.isend(message(n, n % 256), 1, tag) for n, tag in ((1000, 0), (10, 1), (10, 0))])
            return None
        arrived = {}

        def get(n: int, tag: int, name: str) -> None:
            fabric.recv(buffer := message(n), 0, tag)
            assert buffer[0] == n % 256
            arrived[name] = fabric.now()

        long = fabric.spawn(lambda: (get(1000, 0, "long"), get(10, 0, "behind it")))
        get(10, 1, "another")
        long.join()
        return arrived

    arrived = run(2, main, network)[1]
    assert arrived["another"] < 0.1 and 1.0 < arrived["long"] <= arrived["behind it"] < 1.01
