"""What only the virtual fabric promises: determinism, the link model, resources, deadlocks found, errors."""

import contextlib
import itertools
import random
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.fabric import collectives
from repro.fabric.base import ANY_SOURCE, BACKGROUND, FabricError
from repro.fabric.virtual import Network, run
from repro.timing.costs import Costs

ALPHA, BETA = 1e-3, 1e-6
NETWORK = Network(ALPHA, BETA)
KB = 1000


def message(nbytes, value=0):
    return torch.full((nbytes,), value, dtype=torch.uint8)


def close(value):
    return pytest.approx(value, rel=1e-12, abs=1e-15)


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


@pytest.mark.parametrize("p", range(1, 8))
def test_incast(p):
    """p pushes to one node: alpha + p n beta; the i-th is in after alpha + i n beta."""

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


def test_full_duplex():
    def main(fabric):
        other = 1 - fabric.rank
        receive = fabric.irecv(message(KB), other)
        fabric.send(message(KB), other)
        receive.wait()
        return fabric.now()

    assert run(2, main, NETWORK) == [close(ALPHA + KB * BETA)] * 2


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


def test_a_late_receive_finds_the_message_there():
    def main(fabric):
        if fabric.rank == 0:
            fabric.send(message(KB), 1)
        else:
            fabric.sleep(1.0)
            fabric.recv(message(KB), 0)
            return fabric.now()

    assert run(2, main, NETWORK)[1] == 1.0


def test_messages_to_oneself_take_no_time():
    def main(fabric):
        incoming = message(5)
        receive = fabric.irecv(incoming, fabric.rank)
        fabric.send(message(5, 9), fabric.rank)
        receive.wait()
        return fabric.now(), incoming[0].item()

    assert run(2, main, NETWORK) == [(0.0, 9)] * 2


def test_a_sent_buffer_may_change():
    """The message is what it was when it was sent, as if the send had been waited for."""

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


def test_tasks_on_one_resource_take_turns_and_on_two_overlap():
    def main(fabric):
        def work(resource):
            with fabric.compute(1.0, resource):
                pass
            return fabric.now()

        ends = {}
        for pair in (("device", "device"), ("device", "host"), (None, None), ("device", None)):
            start = fabric.now()
            tasks = [fabric.spawn(lambda r=r: work(r), str(r)) for r in pair]
            ends[pair] = [task.join() - start for task in tasks]
        return ends

    for ends in run(2, main, NETWORK):  # ranks do not disturb each other
        assert sorted(ends["device", "device"]) == [1.0, 2.0]
        assert ends["device", "host"] == ends[None, None] == ends["device", None] == [1.0, 1.0]


def test_a_resource_is_first_come_first_served():
    def main(fabric):
        log = []

        def work(name, delay):
            fabric.sleep(delay)
            with fabric.compute(1.0):
                log.append((name, fabric.now()))

        tasks = [fabric.spawn(lambda n=n, d=d: work(n, d), n) for n, d in (("a", 0.3), ("b", 0.1), ("c", 0.2))]
        for task in tasks:
            task.join()
        return log

    assert run(1, main, NETWORK)[0] == [("b", 0.1), ("c", close(1.1)), ("a", close(2.1))]


def test_a_resource_is_the_ranks_whichever_group_it_is_used_through():
    def main(fabric):
        group = fabric.subgroup([1, 0])

        def work(through):
            with through.compute(1.0, "device"):
                pass
            return fabric.now()

        return sorted(task.join() for task in [fabric.spawn(lambda: work(fabric)), fabric.spawn(lambda: work(group))])

    assert run(2, main, NETWORK) == [[1.0, 2.0]] * 2


def test_a_task_cancelled_in_line_for_a_resource_lets_the_others_pass():
    def main(fabric):
        ends = []

        def work():
            with fabric.compute(1.0):
                pass
            ends.append(fabric.now())

        tasks = [fabric.spawn(work, name) for name in "abc"]
        fabric.sleep(0.5)
        tasks[1].cancel()
        for task in tasks:
            task.join()
        return ends

    assert run(1, main, NETWORK) == [[1.0, 2.0]]


def test_a_task_cancelled_while_it_computes_lets_the_resource_go():
    def main(fabric):
        def work():
            with fabric.compute(1.0):
                pass
            return fabric.now()

        first = fabric.spawn(work, "first")
        fabric.sleep(0.5)
        first.cancel()
        first.join()
        return fabric.spawn(work, "second").join()

    assert run(1, main, NETWORK)[0] <= 2.0


def test_communication_overlaps_with_computation():
    def main(fabric):
        task = fabric.spawn(lambda: fabric.allreduce(torch.zeros(1000), channel=BACKGROUND, algorithm="ring"))
        with fabric.compute(0.004):
            pass
        task.join()
        return fabric.now()

    ring = 2 * (ALPHA + 2000 * BETA)
    assert run(2, main, NETWORK) == [close(max(0.004, ring))] * 2


def test_time_cannot_go_back():
    with pytest.raises(ValueError, match="time cannot go back"):
        run(1, lambda fabric: fabric.sleep(-1), NETWORK)


def test_costs_of_a_ring():
    costs = Costs(True, {"reduce": 1e-6}, {"sync": 0.5})

    def main(fabric):
        fabric.allreduce(torch.zeros(100 * fabric.size), algorithm="ring")
        return fabric.now()

    p = 4
    expected = 0.5 + 2 * (p - 1) * (ALPHA + 400 * BETA) + (p - 1) * 400e-6
    assert run(p, main, NETWORK, costs) == [close(expected)] * p


# the same program, the same run


def busy(fabric, device="cpu"):
    """Collectives, tasks, any-source receives and computation of uneven lengths; returns what happened when."""
    log, rank, p = [], fabric.rank, fabric.size

    def note(what):
        log.append((fabric.rank, fabric.current_task(), fabric.now(), what))

    def background():
        for i in range(3):
            with fabric.compute(1e-3 * (rank + i), "host"):
                note(f"host {i}")
            vector = torch.zeros(50 * (i + 1), device=device)
            fabric.allreduce(vector, channel=BACKGROUND, algorithm="recursive_doubling")
            note(f"allreduce {i}")

    task = fabric.spawn(background, "background")
    for i in range(3):
        with fabric.compute(1e-3 * ((rank * 7 + i) % 5)):
            note(f"device {i}")
        sends = [fabric.isend(torch.zeros(10 * (i + 1), device=device), to, 9) for to in range(p)]
        for _ in range(p):
            note(f"from {fabric.recv(torch.zeros(10 * (i + 1), device=device), ANY_SOURCE, 9)}")
        for send in sends:
            send.wait()
        fabric.barrier()
        fabric.allreduce(torch.zeros(1 + 3 * i, device=device)).wait()
        fabric.allgather(torch.zeros(2, device=device))
        fabric.broadcast(torch.zeros(5, device=device), i % p)
        note("round")
    task.join()
    group = fabric.subgroup(range(p // 2 + 1))
    if group:
        group.reduce_scatter(torch.zeros(9, device=device))
    note("end")
    return log


@pytest.mark.parametrize("p", range(1, 9))
def test_two_runs_are_the_same(p):
    assert run(p, busy, NETWORK) == run(p, busy, NETWORK)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 6])
def test_without_arithmetic_the_times_are_the_same(p):
    assert run(p, lambda fabric: busy(fabric, "meta"), NETWORK) == run(p, busy, NETWORK)


@pytest.mark.parametrize("name", collectives.ALLREDUCE)
@pytest.mark.parametrize("p", range(1, 9))
def test_collectives_without_arithmetic(name, p):
    def main(fabric, device):
        fabric.allreduce(torch.ones(17, device=device), algorithm=name)
        return fabric.now(), fabric.bytes_sent

    assert run(p, lambda f: main(f, "meta"), NETWORK) == run(p, lambda f: main(f, "cpu"), NETWORK)


programs = st.tuples(st.integers(1, 5), st.integers(0, 2**32))


def random_program(p, seed):
    """For each rank a list of (action, argument ...), where every message has a receiver."""
    chance = random.Random(seed)
    limits = (p, p, 3, 2, 2000)  # source, to, tag, channel, bytes
    messages = [tuple(chance.randrange(limit) for limit in limits) for _ in range(chance.randrange(25))]
    plans = [[] for _ in range(p)]
    for number, (source, to, tag, channel, n) in enumerate(messages):
        plans[source].append(("send", to, tag, channel, n, number))
        plans[to].append(("receive", source, tag, channel, n, number))
    for plan in plans:
        for _ in range(chance.randrange(4)):
            work = ("compute", chance.random() * 5e-3, chance.choice(["device", "host"]))
            plan.insert(chance.randrange(len(plan) + 1), work)
    return messages, plans


def play(p, plans):
    """Transfers start in the order of the plan and are waited for at the end, so that nothing can deadlock."""

    def main(fabric):
        log, pending, sends = [], [], []
        for action, *arguments in plans[fabric.rank]:
            if action == "compute":
                with fabric.compute(*arguments):
                    log.append((fabric.now(), "compute"))
                continue
            peer, tag, channel, n, number = arguments
            if action == "send":
                sends.append(fabric.isend(torch.full((1 + n,), number % 251, dtype=torch.uint8), peer, tag, channel))
            else:
                buffer = torch.full((1 + n,), 255, dtype=torch.uint8)
                pending.append((number, buffer, fabric.irecv(buffer, peer, tag, channel)))
        while pending:
            number, buffer, work = pending.pop(fabric.wait_any([work for _, _, work in pending]))
            assert (buffer == number % 251).all()
            log.append((fabric.now(), number, work.source))
        for send in sends:
            send.wait()
        return log

    return run(p, main, NETWORK)


@settings(max_examples=30)
@given(programs)
def test_random_programs_repeat_and_lose_nothing(drawn):
    p, seed = drawn
    messages, plans = random_program(p, seed)
    first = play(p, plans)
    assert first == play(p, plans)
    heard = Counter((rank, *entry[1:]) for rank, log in enumerate(first) for entry in log if entry[1] != "compute")
    assert heard == Counter((to, number, source) for number, (source, to, *_) in enumerate(messages))
    for number, (source, to, _, _, n) in enumerate(messages):  # nothing is faster than the wire
        time = next(time for time, what, *_ in first[to] if what == number)
        assert time >= (0 if source == to else ALPHA + (1 + n) * BETA) * (1 - 1e-12)


@settings(max_examples=15)
@given(st.integers(2, 5), st.integers(0, 2**32))
def test_any_source_loses_and_doubles_nothing(p, seed):
    chance = random.Random(seed)
    counts = [[chance.randrange(5) for _ in range(p)] for _ in range(p)]  # from, to

    def main(fabric):
        def listen():
            heard = []
            for _ in range(sum(row[fabric.rank] for row in counts)):
                value = torch.zeros(1)
                heard.append((fabric.recv(value, ANY_SOURCE, 0, BACKGROUND), value.item()))
            return heard

        task = fabric.spawn(listen, "listener")
        order = [to for to in range(p) for _ in range(counts[fabric.rank][to])]
        random.Random(seed + fabric.rank).shuffle(order)
        sent = Counter()
        for to in order:
            fabric.isend(torch.tensor([float(sent[to])]), to, 0, BACKGROUND)
            sent[to] += 1
        return task.join()

    for rank, heard in enumerate(run(p, main, NETWORK)):
        for source in range(p):  # all of them, in order
            assert [value for who, value in heard if who == source] == list(range(counts[source][rank]))


def test_the_order_of_ties_is_that_of_the_ranks():
    log = []

    def main(fabric):
        for i in range(3):
            log.append((i, fabric.rank))
            fabric.sleep(1.0)

    run(5, main, NETWORK)
    assert log == list(itertools.product(range(3), range(5)))


@pytest.mark.parametrize("p", range(1, 9))
def test_world_sizes(p):
    def main(fabric):
        for algorithm in ("auto", *collectives.ALLREDUCE):
            fabric.allreduce(torch.ones(5), algorithm=algorithm).wait()
        return fabric.rank, fabric.size

    assert run(p, main, NETWORK) == [(rank, p) for rank in range(p)]


# how runs end badly


def test_a_rank_that_raises():
    def main(fabric):
        if fabric.rank == 2:
            fabric.sleep(1.0)
            raise KeyError("gone")
        try:
            fabric.recv(torch.zeros(1), 2)
        except FabricError as error:
            heard.append((fabric.rank, str(error)))
            raise

    heard = []
    with pytest.raises(KeyError, match="gone"):
        run(4, main, NETWORK)
    assert sorted(heard) == [(rank, "rank 2 (main) failed: KeyError: 'gone'") for rank in (0, 1, 3)]


def test_a_task_that_raises():
    def main(fabric):
        if fabric.rank == 1:
            def fail():
                fabric.sleep(0.1)
                raise ValueError("boom")

            fabric.spawn(fail, "helper")
        fabric.barrier()
        with pytest.raises(FabricError, match=r"rank 1 \(helper\) failed: ValueError: boom"):
            fabric.sleep(1.0)

    with pytest.raises(ValueError, match="boom"):
        run(3, main, NETWORK)


def test_a_rank_that_leaves_early():
    def main(fabric):
        if fabric.rank != 1:
            fabric.allreduce(torch.ones(6), algorithm="ring")

    with pytest.raises(FabricError) as caught:
        run(3, main, NETWORK)
    said = str(caught.value)
    assert said.startswith("deadlock at ")
    assert "rank 2 (main) waits for a message from rank 1" in said
    assert "rank 0 (main) waits for a message from rank 2" in said
    assert said.endswith("ended: rank 1")


def test_a_deadlock_names_everybody():
    def main(fabric):
        def helper():
            fabric.queue().get()

        if fabric.rank == 0:
            fabric.spawn(helper, "helper").join()
        fabric.recv(torch.zeros(1), 1 - fabric.rank, 7, BACKGROUND)

    with pytest.raises(FabricError) as caught:
        run(2, main, NETWORK)
    said = str(caught.value)
    for part in (
        "rank 0 (main) waits for the end of task helper",
        "rank 0 (helper) waits for an item of a queue",
        "rank 1 (main) waits for a message from rank 0 (tag 7, channel 1)",
    ):
        assert part in said


def test_a_task_of_a_subgroup_is_named_by_its_rank_of_the_run():
    def main(fabric):
        group = fabric.subgroup([2, 1])
        if fabric.rank == 2:
            group.spawn(lambda: group.queue().get(), "stuck")

    with pytest.raises(FabricError, match=r"rank 2 \(stuck\) waits for"):
        run(3, main, NETWORK)


def test_a_limit_of_virtual_seconds():
    def main(fabric):
        if fabric.rank == 0:
            fabric.sleep(100.0)
            fabric.send(torch.zeros(1), 1)
        else:
            fabric.recv(torch.zeros(1), 0, 0)

    run(2, main, NETWORK)
    with pytest.raises(FabricError, match=r"rank 1 \(main\): a message from rank 0 .*nothing after 5 s"):
        run(2, main, NETWORK, timeout_s=5.0)


def test_a_passed_limit_may_be_caught():
    def main(fabric):
        if fabric.rank == 0:
            fabric.sleep(2.0)
            fabric.send(torch.ones(1), 1)
            return None
        value = torch.zeros(1)
        work = fabric.irecv(value, 0)
        for _ in range(3):
            with contextlib.suppress(FabricError):
                work.wait(timeout=0.9)
        return value.item(), fabric.now()

    assert run(2, main, NETWORK)[1] == (1.0, close(2.0 + ALPHA + 4 * BETA))


def test_an_outdated_limit_wakes_nobody():
    def main(fabric):
        if fabric.rank == 0:
            fabric.send(torch.ones(1), 1)
            fabric.sleep(2.0)
            fabric.send(torch.ones(1), 1)
        else:
            fabric.irecv(torch.zeros(1), 0).wait(timeout=1.0)
            fabric.irecv(torch.zeros(1), 0).wait()  # over the first limit's moment
            return fabric.now()

    assert run(2, main, NETWORK)[1] == close(2.0 + ALPHA + 8 * BETA)


def test_nothing_is_left_after_a_bad_end():
    """The next run in this process is not disturbed."""
    for _ in range(3):
        with pytest.raises(FabricError, match="deadlock"):
            run(4, lambda fabric: fabric.recv(torch.zeros(1), 0), NETWORK)
    assert run(2, lambda fabric: fabric.exchange(fabric.rank), NETWORK) == [[0, 1]] * 2
