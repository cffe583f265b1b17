"""The same program on the virtual fabric takes the same course, to the bit."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.fabric.base import ANY_SOURCE, BACKGROUND
from repro.fabric.virtual.fabric import run
from tests.support.virtual import ALPHA, BETA, NETWORK


def busy(fabric, device="cpu"):
    """Collectives, tasks, any-source receives and computation of uneven lengths; returns a log with times."""
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
def test_two_runs_are_the_same_and_so_are_times_without_arithmetic(p):
    first = run(p, busy, NETWORK)
    assert first == run(p, busy, NETWORK) == run(p, lambda fabric: busy(fabric, "meta"), NETWORK)


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
    """Start transfers in the order of the plan and wait for them at the end, so that nothing can deadlock."""

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
    received = Counter((rank, *entry[1:]) for rank, log in enumerate(first) for entry in log if entry[1] != "compute")
    assert received == Counter((to, number, source) for number, (source, to, *_) in enumerate(messages))
    for number, (source, to, _, _, n) in enumerate(messages):  # nothing is faster than the wire
        time = next(time for time, what, *_ in first[to] if what == number)
        assert time >= (0 if source == to else ALPHA + (1 + n) * BETA) * (1 - 1e-12)


def test_the_order_of_ties_is_that_of_the_ranks():
    log = []

    def main(fabric):
        for i in range(3):
            log.append((i, fabric.rank))
            fabric.sleep(1.0)

    run(5, main, NETWORK)
    assert log == list(itertools.product(range(3), range(5)))
