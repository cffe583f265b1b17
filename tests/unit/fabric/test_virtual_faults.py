"""What goes wrong on the virtual fabric is found and named; in what goes well nothing is lost or counted twice."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest
import torch

from repro.fabric.base import BACKGROUND, FabricError
from repro.fabric.codecs import CODECS
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.compressed import RINGS, CompressedAllreduce
from repro.fabric.virtual.fabric import Network, run
from tests.support.virtual import ALPHA, BETA, NETWORK, close

# --- what only the virtual fabric promises: deadlocks found, errors and limits named


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


# --- nothing is lost and nothing counted twice: sums through every codec, in the ring and in the pipelined ring


CONSERVING = Network(1e-6, 1e-9)
WORLDS = [2, 3, 6]


def allreduced(name, algorithm, gradients, pieces=4, seed=0):
    """What each rank holds after compress, reduce, decompress."""
    n = len(gradients[0])

    def main(fabric):
        work = CompressedAllreduce(fabric, n, name, algorithm, pieces=pieces, seed=seed)
        return work.decompress(work.reduce(work.compress(gradients[fabric.rank].clone())), torch.full((n,), 7.0))

    totals = run(len(gradients), main, CONSERVING)
    assert all(torch.equal(total, totals[0]) for total in totals[1:])
    return totals[0]


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("algorithm", RINGS)
@pytest.mark.parametrize("p", WORLDS)
def test_each_rank_s_contribution_arrives_exactly_once(name, algorithm, p):
    """Each element comes from one rank alone; 8 and 0 are exact in every codec, and so is every partial sum."""
    for n in (1, p - 1, p, 5 * p + 1, 96):
        place = torch.arange(n)
        for owners in (place % p, place * p // max(1, n), place * 0, place * 0 + p - 1):
            gradients = [8.0 * (owners == rank) for rank in range(p)]
            assert torch.equal(allreduced(name, algorithm, gradients), torch.full((n,), 8.0)), n


@pytest.mark.parametrize("pieces", [1, 3, 7])
@pytest.mark.parametrize("p", WORLDS)
def test_quantization_has_a_range_a_piece(p, pieces):
    """Half a step for each of 2p - 1 roundings (as in test_codecs), a step being that of the piece."""
    n = 10 * p + 1
    gradients = [
        torch.randn(n, generator=torch.Generator().manual_seed(rank)) * torch.logspace(-3, 3, n) for rank in range(p)
    ]
    magnitudes = torch.stack(gradients).double().abs().sum(0)
    share = (2 * p - 1) / 254 * (1 + 1 / 254) ** p
    cut = collectives.piece_bounds(n, p, pieces)
    full = [(start, end) for start, end in cut if end > start]
    allowed = torch.cat([torch.full((end - start,), magnitudes[start:end].max().item()) for start, end in full]) * share
    error = allreduced("quantize8", "ring_pipelined", gradients, pieces) - torch.stack(gradients).double().sum(0)
    assert (error.abs() <= allowed * (1 + 1e-6)).all()


@pytest.mark.parametrize("algorithm", RINGS)
@pytest.mark.parametrize("p", WORLDS)
def test_ternary_sums_are_unbiased(algorithm, p):
    """The mean over many draws goes to the sum: five values a rank, each repeated N times in a vector, three seeds.

    Each of an element's 2p - 1 encodings adds at most the variance s^2/4, s being at most the sum of the ranks' largest
    values, so 3 s sqrt((2p - 1)/N) is 6 standard deviations of the mean or more.
    """
    values = [torch.randn(5, generator=torch.Generator().manual_seed(50 + rank)) for rank in range(p)]
    exact, scale, repeats = torch.stack(values).double().sum(0), sum(v.abs().max().item() for v in values), 4000
    means = []
    for seed in range(3):
        total = allreduced("ternary", algorithm, [v.repeat(repeats) for v in values], 2, seed)
        means.append(total.view(repeats, 5).double().mean(0))
    assert len({tuple(mean.tolist()) for mean in means}) == 3
    for mean, draws in [(mean, repeats) for mean in means] + [(torch.stack(means).mean(0), 3 * repeats)]:
        assert ((mean - exact).abs() <= 3 * scale * ((2 * p - 1) / draws) ** 0.5).all()


@pytest.mark.parametrize("n, parts, pieces", [(0, 3, 4), (1, 3, 4), (5, 3, 4), (24, 3, 4), (25, 2, 1), (7, 7, 9)])
def test_pieces_cover_the_blocks(n, parts, pieces):
    cut = collectives.piece_bounds(n, parts, pieces)
    assert cut[0][0] == 0 and cut[-1][1] == n and all(end == start for (_, end), (start, _) in pairwise(cut))
    width, rest = divmod(len(cut), parts)
    assert rest == 0 and 1 <= width <= pieces
    blocks = [(cut[i * width][0], cut[(i + 1) * width - 1][1]) for i in range(parts)]
    assert blocks == collectives.bounds(n, parts)
