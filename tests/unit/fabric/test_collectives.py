"""Collectives: how vectors are cut, the order of summation, the bytes sent."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repro.fabric.collectives import dense as collectives
from repro.fabric.virtual.fabric import Network, run

NETWORK = Network(1e-4, 1e-8)


@given(st.integers(0, 500), st.integers(1, 40))
def test_bounds_cover_and_differ_by_at_most_one(n, parts):
    cut = collectives.chunk_bounds(n, parts)
    assert len(cut) == parts and cut[0][0] == 0 and cut[-1][1] == n
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(cut))
    lengths = [end - start for start, end in cut]
    assert max(lengths) - min(lengths) <= 1


@given(st.integers(0, 60), st.integers(1, 7), st.integers(1, 9))
def test_pieces_cover_the_blocks(n, parts, pieces):
    cut = collectives.piece_bounds(n, parts, pieces)
    assert cut[0][0] == 0 and cut[-1][1] == n
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(cut))
    width, rest = divmod(len(cut), parts)
    assert rest == 0 and 1 <= width <= pieces
    blocks = [(cut[i * width][0], cut[(i + 1) * width - 1][1]) for i in range(parts)]
    assert blocks == collectives.chunk_bounds(n, parts)


def summed(p, rows, algorithm):
    def main(fabric):
        vector = torch.tensor(rows[fabric.rank], dtype=torch.float32)
        fabric.allreduce(vector, algorithm=algorithm)
        return vector

    return run(p, main, NETWORK)


ALL_RANKS = ["ring", "ring_half_duplex", "ring_pipelined", "recursive_doubling", "tree", "sharded_server"]


def in_rank_order(rows):
    total = rows[0].clone()
    for row in rows[1:]:
        total += row
    return total


@pytest.mark.parametrize("algorithm", ["server", "sharded_server"])
@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("n", [0, 1, 5, 101])
def test_servers_add_in_rank_order(algorithm, p, n):
    """Bit for bit, although the last rank's vector arrives first, and the sum in float32 depends on the order."""
    generator = torch.Generator().manual_seed(p)
    rows = torch.randn(p, n, generator=generator) * 10.0 ** torch.randint(-4, 5, (p, n), generator=generator)
    size = p + (algorithm == "server")  # whose last rank only sums

    def main(fabric):
        vector = rows[fabric.rank].clone() if fabric.rank < p else torch.zeros(n)
        fabric.sleep(1.0 - 0.1 * fabric.rank)
        fabric.allreduce(vector, algorithm=algorithm)
        return vector

    assert all(torch.equal(total, in_rank_order(rows)) for total in run(size, main, NETWORK))


def test_the_ring_adds_along_the_ring():
    """Block i starts at rank i and is finished at rank i - 1."""
    p = 4
    noise = torch.randn(p, p, generator=torch.Generator().manual_seed(3)) * torch.tensor([1.0, 1e3, 1e-3, 1e6])
    expected = []
    for block in range(p):
        total = noise[block, block]
        for hop in range(1, p):
            total = noise[(block + hop) % p, block] + total
        expected.append(total.item())
    assert summed(p, noise.tolist(), "ring")[0].tolist() == expected


@pytest.mark.parametrize("skew", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("algorithm", [*ALL_RANKS, "server"])
def test_the_order_of_summation_does_not_depend_on_late_ranks(algorithm, skew):
    noise = torch.randn(5, 33, generator=torch.Generator().manual_seed(1))

    def main(fabric):
        fabric.sleep(max(0.0, skew * (fabric.rank - 2)))
        vector = noise[fabric.rank].clone()
        fabric.allreduce(vector, algorithm=algorithm)
        return vector

    for late, even in zip(run(5, main, NETWORK), summed(5, noise.tolist(), algorithm)):
        assert torch.equal(late, even)


@pytest.mark.parametrize("p", [1, 2, 3, 6, 8])
def test_bytes(p):
    """The bytes that each algorithm sends, over all ranks, for n bytes."""
    n = 4 * 24 * p

    def main(fabric, action):
        before = fabric.bytes_sent
        action(fabric, torch.zeros(n // 4))
        return fabric.bytes_sent - before

    def total(action):
        return sum(run(p, lambda fabric: main(fabric, action), NETWORK))

    assert total(collectives.ring_allreduce) == total(collectives.ring_pipelined) == 2 * (p - 1) * n
    assert total(collectives.ring_reduce_scatter) == (p - 1) * n
    assert total(collectives.ring_allgather) == p * (p - 1) * n
    assert total(collectives.binomial_reduce) == total(collectives.binomial_broadcast) == (p - 1) * n
    for algorithm in ("ring_half_duplex", "tree", "server", "sharded_server"):
        assert total(collectives.ALLREDUCE[algorithm]) == 2 * (p - 1) * n
    core = 1 << (p.bit_length() - 1)
    assert total(collectives.recursive_doubling_allreduce) == (core * (core.bit_length() - 1) + 2 * (p - core)) * n


def test_many_in_a_row_while_ranks_drift():
    """A fast rank may be several collectives ahead of a slow one."""

    def main(fabric):
        sums = []
        for i in range(6):
            fabric.sleep(1e-3 * ((fabric.rank * 5 + i * 3) % 7))
            vector = torch.tensor([float(i + fabric.rank)] * 5)
            collectives.binomial_broadcast(fabric, vector, i % fabric.size)
            sums.append(vector[0].item() - i - i % fabric.size)
            collectives.binomial_reduce(fabric, vector, 0)
        return sums

    assert run(5, main, NETWORK) == [[0.0] * 6] * 5


@pytest.mark.parametrize("p", [1, 2, 5, 8])
def test_a_barrier_waits_for_the_last(p):
    def main(fabric):
        fabric.sleep(1.0 * fabric.rank)
        fabric.barrier()
        return fabric.now()

    rounds = (p - 1).bit_length()
    for time in run(p, main, NETWORK):
        assert p - 1 <= time <= p - 1 + rounds * (1e-4 + 1e-8) * (1 + 1e-9)
