"""Conformance checks of one fabric: collectives."""

from __future__ import annotations

import pytest
import torch

from repro.core.errors import InputError
from repro.fabric.base import BACKGROUND, MAIN
from repro.fabric.codecs import CODECS
from repro.fabric.collectives import algorithms
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.compressed import CompressedAllreduce
from tests.support.fabric_checks.common import (
    OTHER,
    SIZES,
    Skip,
    bits,
    meet,
    need,
    neighbours,
    noise,
    numbers,
    same_everywhere,
)


def check_native_allreduce(fabric):
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64):
        for n in SIZES if dtype == torch.float32 else (7,):
            vector = numbers(n, fabric.rank, dtype)
            fabric.allreduce(vector).wait()
            assert torch.equal(vector, sum(numbers(n, rank, dtype) for rank in range(fabric.size))), (dtype, n)
    vector = noise(1000, fabric.rank)
    fabric.allreduce(vector, channel=OTHER).wait()
    torch.testing.assert_close(vector, sum(noise(1000, rank) for rank in range(fabric.size)))


def check_auto_is_settled_once_and_sums(fabric):
    """`auto` is the same on every rank and in the record, and sums are right above and below its size."""
    fabric.settle_auto()
    auto = fabric.auto
    assert fabric.exchange(auto) == [auto] * fabric.size
    facts = auto.facts()
    measured = fabric.size > 1 and not hasattr(fabric, "scheduler")  # nothing where time is virtual
    assert facts["why"] and bool(facts["measured"]) == measured
    assert facts["auto"] == "native" or measured
    fabric.settle_auto()
    assert fabric.auto is auto
    for n in (7, (auto.above_bytes or 4 << 20) // 4):
        vector = numbers(n, fabric.rank)
        fabric.allreduce(vector, algorithm="auto").wait()
        assert torch.equal(vector, sum(numbers(n, rank) for rank in range(fabric.size)))


def forced(native_s, ring_s):
    """A measurement with these seconds for a megabyte, in proportion for less."""
    return lambda fabric, name, nbytes: (native_s if name == "native" else ring_s) * nbytes / 2**20


def check_auto_takes_what_was_faster(fabric):
    """By a fake measurement, as the slowest rank sees it."""
    need(fabric)
    if fabric.name == "virtual":
        raise Skip("virtual time measures nothing")
    slow = 1.0 if fabric.rank else 2.0
    ring = algorithms.find_crossover(fabric, forced(1.0 * slow, 0.5 * slow))
    native = algorithms.find_crossover(fabric, forced(0.5 * slow, 1.0 * slow))
    assert ring.above_bytes == algorithms.SIZES[0] and native.above_bytes is None
    assert ring.measured[0].native_s == 2 * algorithms.SIZES[0] / 2**20  # the slowest rank's
    for fabric.auto, expected in ((ring, "ring_pipelined"), (native, "native")):
        n = algorithms.SIZES[0]
        allreduce = CompressedAllreduce(fabric, n, "none", "auto")
        vector, sent = noise(n, fabric.rank), noise(n, fabric.rank)
        fabric.allreduce(sent, algorithm=expected).wait()
        allreduce.decompress(allreduce.reduce(allreduce.compress(vector)), vector)
        if expected == "ring_pipelined":  # which has an order of summation
            assert bits(vector) == bits(sent)
        torch.testing.assert_close(vector, sent)
        assert fabric.auto.algorithm(vector[:5]) == "native"


def check_named_allreduces(fabric):
    for name in collectives.ALLREDUCE:
        contributors = range(max(1, fabric.size - 1) if name == "server" else fabric.size)  # a server only sums
        for n in SIZES:
            vector = numbers(n, fabric.rank).view(2, -1) if n == 16 else numbers(n, fabric.rank)
            fabric.allreduce(vector, algorithm=name).wait()
            assert torch.equal(vector.view(-1), sum(numbers(n, rank) for rank in contributors)), (name, n)


def check_named_allreduces_give_the_same_bits(fabric):
    """To every rank, and every time."""
    for name in collectives.ALLREDUCE:
        for n in (3, 1001):
            first, second = noise(n, fabric.rank), noise(n, fabric.rank)
            fabric.allreduce(first, algorithm=name, channel=BACKGROUND)
            fabric.allreduce(second, algorithm=name)
            assert bits(first) == bits(second), name
            assert same_everywhere(fabric, first), name


def check_the_pipelined_ring_is_the_ring(fabric):
    """To the bit, in however many pieces: fewer elements than ranks, fewer than pieces, not divisible, many."""
    for n in SIZES:
        plain, sent = noise(n, fabric.rank), fabric.bytes_sent
        collectives.ring_allreduce(fabric, plain)
        sent = fabric.bytes_sent - sent
        for pieces in (1, 2, 3, 4, 64):
            vector, before = noise(n, fabric.rank), fabric.bytes_sent
            collectives.ring_pipelined(fabric, vector, BACKGROUND, pieces)
            assert bits(vector) == bits(plain), (n, pieces)
            assert fabric.bytes_sent - before == sent, (n, pieces)


def check_compressed_allreduces(fabric):
    """What a codec represents exactly arrives exactly; any vector arrives the same everywhere."""
    for codec in CODECS:
        for algorithm in ("ring", "ring_pipelined"):
            for n in SIZES:
                allreduce = CompressedAllreduce(fabric, n, codec, algorithm, pieces=3)
                one_hot = (torch.arange(n) % fabric.size == fabric.rank).float() * 8.0
                total = allreduce.decompress(allreduce.reduce(allreduce.compress(one_hot)), torch.zeros(n))
                assert torch.equal(total, torch.full((n,), 8.0)), (codec, algorithm, n)
                any_vector = noise(n, fabric.rank)
                total = allreduce.decompress(allreduce.reduce(allreduce.compress(any_vector)), torch.zeros(n))
                assert total.isfinite().all() and same_everywhere(fabric, total), (codec, algorithm, n)


def check_allreduce_mean(fabric):
    for name in ("auto", "ring", "ring_pipelined", "recursive_doubling", "tree"):
        vector = torch.full((5,), float(fabric.rank))
        fabric.allreduce(vector, op="mean", algorithm=name, async_=True).wait()
        torch.testing.assert_close(vector, torch.full((5,), (fabric.size - 1) / 2))


def check_asynchronous_allreduces(fabric):
    vectors = [torch.full((50,), float(i + fabric.rank)) for i in range(4)]
    works = [fabric.allreduce(vector, async_=True) for vector in vectors]
    for work in reversed(works):
        work.wait()
    for i, vector in enumerate(vectors):
        assert vector[7].item() == sum(i + rank for rank in range(fabric.size))


def check_unknown_algorithm(fabric):
    with pytest.raises(InputError, match=r"unknown allreduce algorithm 'rign'; valid: ring"):
        fabric.allreduce(torch.ones(1), algorithm="rign")


def check_allgather(fabric):
    for dtype in (torch.float32, torch.int8, torch.int64, torch.uint8, torch.bfloat16):
        for shape in ((1,), (7,), (2, 3)):
            mine = torch.full(shape, fabric.rank).to(dtype)
            gathered = fabric.allgather(mine)
            mine.fill_(99)  # the result is a copy
            assert len(gathered) == fabric.size
            for rank, part in enumerate(gathered):
                assert part.dtype == dtype and torch.equal(part, torch.full(shape, rank).to(dtype))


def check_broadcast_from_each(fabric):
    for root in range(fabric.size):
        for dtype in (torch.float32, torch.int8, torch.bfloat16, torch.int64):
            vector = numbers(9, fabric.rank, dtype)
            fabric.broadcast(vector, root)
            assert torch.equal(vector, numbers(9, root, dtype)), (root, dtype)
    matrix = torch.full((2, 2), float(fabric.rank))
    fabric.broadcast(matrix, fabric.size - 1, BACKGROUND)
    assert torch.equal(matrix, torch.full((2, 2), float(fabric.size - 1)))


def check_reduce_scatter(fabric):
    for n in SIZES:
        mine = fabric.reduce_scatter(numbers(n, fabric.rank))
        start, end = collectives.chunk_bounds(n, fabric.size)[fabric.rank]
        assert torch.equal(mine, sum(numbers(n, rank) for rank in range(fabric.size))[start:end]), n


def check_reduce_and_tree_broadcast(fabric):
    for root in range(fabric.size):
        vector = numbers(11, fabric.rank)
        collectives.binomial_reduce(fabric, vector, root)
        if fabric.rank == root:
            assert torch.equal(vector, sum(numbers(11, rank) for rank in range(fabric.size)))
        vector = numbers(11, fabric.rank)
        collectives.binomial_broadcast(fabric, vector, root)
        assert torch.equal(vector, numbers(11, root))


def check_barrier(fabric):
    for channel in (MAIN, BACKGROUND):
        fabric.sleep(0.02 * ((fabric.rank * 7 + channel) % fabric.size))
        arrived = fabric.now()
        fabric.barrier(channel)
        left = fabric.now()
        assert left >= max(fabric.exchange(arrived))  # one clock for all ranks of a machine


def check_collectives_let_messages_be(fabric):
    """A message that nobody has received yet is still there after a collective on its channel, whatever its tag."""
    need(fabric, "tags")
    left, right = neighbours(fabric)
    sends = [fabric.isend(torch.tensor([float(tag)]), right, tag) for tag in range(5)]
    meet(fabric)
    fabric.barrier()
    vector = torch.full((1,), float(fabric.rank))
    fabric.broadcast(vector, 0)
    assert vector.item() == 0
    gathered = fabric.allgather(torch.full((1,), float(fabric.rank)))
    assert [part.item() for part in gathered] == list(range(fabric.size))
    for name in ("auto", *collectives.ALLREDUCE):
        vector = torch.ones(fabric.size)
        fabric.allreduce(vector, algorithm=name).wait()
        assert vector[0].item() == (max(1, fabric.size - 1) if name == "server" else fabric.size)
    for tag in range(5):
        incoming = torch.zeros(1)
        fabric.recv(incoming, left, tag)
        assert incoming.item() == tag
    for send in sends:
        send.wait()
