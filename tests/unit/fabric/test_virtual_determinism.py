"""The same program on the virtual fabric is the same run; and the allreduce through a server on every rank."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.fabric.base import ANY_SOURCE, BACKGROUND
from repro.fabric.collectives.sharded import sharded_server_allreduce
from repro.fabric.virtual.fabric import Network, run
from tests.support.virtual import ALPHA, BETA, NETWORK

# --- what only the virtual fabric promises: the same program is the same run, and nothing is lost


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


@pytest.mark.parametrize("p", [1, 2, 5, 8])
def test_two_runs_are_the_same(p):
    assert run(p, busy, NETWORK) == run(p, busy, NETWORK)


@pytest.mark.parametrize("p", [2, 3, 6])
def test_without_arithmetic_the_times_are_the_same(p):
    assert run(p, lambda fabric: busy(fabric, "meta"), NETWORK) == run(p, busy, NETWORK)


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
@given(st.integers(1, 5), st.integers(0, 2**32))
def test_random_programs_repeat_and_lose_nothing(p, seed):
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


# --- the allreduce through a server with a shard on every rank: what it sums in what order, and what it moves


OF_SERVERS = Network(1e-4, 1e-8)
RANKS = [1, 2, 3, 4, 5, 6, 8]


def noise(p: int, n: int) -> torch.Tensor:
    """Numbers (p, n) whose sum in float32 depends on the order."""
    generator = torch.Generator().manual_seed(p)
    return torch.randn(p, n, generator=generator) * 10.0 ** torch.randint(-4, 5, (p, n), generator=generator)


def in_rank_order(rows: torch.Tensor) -> torch.Tensor:
    total = rows[0].clone()
    for row in rows[1:]:
        total += row
    return total


def reduced(rows: torch.Tensor) -> list[torch.Tensor]:
    """What each rank has."""

    def main(fabric):
        vector = rows[fabric.rank].clone()
        sharded_server_allreduce(fabric, vector)
        return vector

    return run(len(rows), main, OF_SERVERS)


@pytest.mark.parametrize("p", RANKS)
@pytest.mark.parametrize("n", [0, 1, 5, 101])
def test_the_sum_in_rank_order_bit_for_bit(p, n):
    rows = noise(p, n)
    for found in reduced(rows):
        assert torch.equal(found, in_rank_order(rows))
