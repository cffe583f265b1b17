"""The allreduce through a server with a shard on every rank: what it sums in what order, and what it moves."""

from __future__ import annotations

import pytest
import torch

from repro.fabric.base import BACKGROUND
from repro.fabric.sharded import sharded_server_allreduce
from repro.fabric.virtual import Network, run

NETWORK = Network(1e-4, 1e-8)
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


def reduced(rows: torch.Tensor, late: float = 0.0) -> list[torch.Tensor]:
    """What each rank has; `late`: seconds that each rank comes after the one before it, or before it if negative."""

    def main(fabric):
        fabric.sleep(late * fabric.rank if late >= 0 else -late * (fabric.size - fabric.rank))
        vector = rows[fabric.rank].clone()
        sharded_server_allreduce(fabric, vector)
        return vector

    return run(len(rows), main, NETWORK)


@pytest.mark.parametrize("p", RANKS)
@pytest.mark.parametrize("n", [0, 1, 5, 24, 101])
def test_the_sum_in_rank_order_bit_for_bit(p, n):
    rows = noise(p, n)
    for found in reduced(rows):
        assert torch.equal(found, in_rank_order(rows))


@pytest.mark.parametrize("p", [3, 6])
@pytest.mark.parametrize("late", [0.3, -0.3])
def test_whoever_is_late(p, late):
    rows = noise(p, 50)
    assert all(torch.equal(found, in_rank_order(rows)) for found in reduced(rows, late))
    if p > 3:  # another order would have shown
        assert not torch.equal(in_rank_order(rows), in_rank_order(rows.flip(0)))


@pytest.mark.parametrize("p", RANKS)
def test_bytes_are_those_of_section_3_2(p):
    """Each rank sends 2 (p-1)/p n bytes; what it receives is as much."""
    n = 4 * 24 * 5 * p

    def main(fabric):
        sharded_server_allreduce(fabric, torch.zeros(n // 4))
        return fabric.bytes_sent

    assert run(p, main, NETWORK) == [2 * (p - 1) * n // p] * p


def test_of_any_shape_and_by_its_name():
    rows = noise(3, 12)

    def main(fabric):
        matrix = rows[fabric.rank].clone().view(3, 4)
        fabric.allreduce(matrix, algorithm="sharded_server")
        return matrix

    for found in run(3, main, NETWORK):
        assert torch.equal(found.view(-1), in_rank_order(rows))


def test_two_at_once_on_two_channels():
    rows, others = noise(4, 30), noise(4, 30).flip(1)

    def main(fabric):
        first, second = rows[fabric.rank].clone(), others[fabric.rank].clone()
        task = fabric.spawn(lambda: sharded_server_allreduce(fabric, second, BACKGROUND))
        sharded_server_allreduce(fabric, first)
        task.join()
        return first, second

    for first, second in run(4, main, NETWORK):
        assert torch.equal(first, in_rank_order(rows)) and torch.equal(second, in_rank_order(others))


def test_several_in_a_row_while_ranks_drift():
    rows = noise(5, 17)

    def main(fabric):
        vector = rows[fabric.rank].clone()
        for turn in range(4):
            fabric.sleep(1e-3 * ((3 * fabric.rank + turn) % 5))
            sharded_server_allreduce(fabric, vector)
            vector.div_(fabric.size)
        return vector

    expected = rows
    for _ in range(4):
        expected = in_rank_order(expected).div_(5).expand(5, -1)
    assert all(torch.equal(found, expected[0]) for found in run(5, main, NETWORK))
