"""PowerSGD against closed forms, a reference in plain PyTorch on the workers' mean gradient, and the paper's sizes."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn

from repro import models
from repro.strategies import powersgd
from repro.strategies.powersgd import Options, matrix_shapes
from repro.testing import small

NAME = "powersgd"
EPS = torch.finfo(torch.float32).eps
ALWAYS = {"min_compression": 0.0}


def seeded(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def deep() -> nn.Sequential:
    """Matrices of 8 x 6, 8 x 8 and 3 x 8."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        linear = [nn.Linear(small.INPUTS, 8), nn.Linear(8, 8), nn.Linear(8, small.CLASSES)]
    return nn.Sequential(OrderedDict(a=nn.Sequential(linear[0], nn.Tanh()), b=nn.Sequential(*linear[1:])))


def one_worker(n: int, m: int, rank: int, seed: int = 0) -> powersgd.PowerSGD:
    """The strategy of a single worker that compresses one matrix of n x m."""
    strategy = powersgd.PowerSGD(Options(rank=rank, min_compression=0.0))
    shard = small.ModelShard(nn.Sequential(nn.Linear(m, n, bias=False)), small.SGD, torch.device("cpu"))
    fabric = small.virtual.run(1, lambda fabric: fabric, small.NETWORK)[0]
    strategy.setup(small.Worker(1, fabric, small.Clock(fabric), shard, small.NoBatches(), 1, seed))
    return strategy


def one_update(M: torch.Tensor, rank: int, Q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(P Q^T, memory) that a single worker makes of a gradient matrix."""
    strategy = one_worker(*M.shape, rank)
    strategy.second.copy_(Q.reshape(-1))
    update = M.flatten().clone()
    strategy.multiply(update)
    strategy.project(update)
    strategy.decompress(update)
    return update.view_as(M), strategy.memory.view_as(M)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 5), (5, 3), (6, 6), (8, 40), (40, 8)])
def test_at_full_rank_the_gradient_comes_back_and_nothing_is_left(n, m):
    """P P^T M = M where the columns of P span M's.

    In floating point to 8 r cond(Q) eps |M|: P spans the columns of a product that is off by r eps |M| |Q|, which is
    cond(Q) times as much in terms of M; the factors' own products and P's orthogonality add a few r eps |M|.
    """
    r, M = min(n, m), seeded(n, m)
    Q = seeded(m, r, seed=2)
    bound = 8 * r * torch.linalg.cond(Q) * EPS * M.norm()
    update, memory = one_update(M, r, Q)
    assert (update - M).norm() <= bound and memory.norm() <= bound
    torch.testing.assert_close(update + memory, M)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_a_matrix_of_low_rank_is_sent_exactly_enough(r):
    M, Q = seeded(9, r) @ seeded(r, 12, seed=3), seeded(12, 4, seed=2)
    for rank in (r, 4):  # also where columns of P depend on each other
        update, memory = one_update(M, rank, Q[:, :rank])
        torch.testing.assert_close(update, M, rtol=1e-4, atol=1e-5)
        assert memory.abs().max() < 1e-4


def test_one_power_iteration_is_a_projection_on_the_span_of_M_Q():
    M, Q = seeded(7, 10).double(), seeded(10, 2, seed=2).double()
    P = torch.linalg.qr(M @ Q).Q
    update, memory = one_update(M.float(), 2, Q.float())
    torch.testing.assert_close(update, (P @ P.T @ M).float())
    torch.testing.assert_close(memory, (M - P @ P.T @ M).float())


def test_a_gradient_of_zero_does_not_end_a_matrix():
    """It leaves Q at zero; the next P has columns all the same, and what they leave out is remembered."""
    M = seeded(6, 8)
    assert not one_update(torch.zeros(6, 8), 2, seeded(8, 2, seed=2))[0].any()
    update, memory = one_update(M, 2, torch.zeros(8, 2))
    torch.testing.assert_close(update.norm() ** 2 + memory.norm() ** 2, M.norm() ** 2)
    assert update.norm() > 0.1


@pytest.mark.parametrize("seed", [0, 7])
def test_the_first_Q_is_drawn_from_the_runs_seed(seed):
    assert torch.equal(one_worker(9, 5, 2, seed).second, seeded(10, seed=seed))


def test_a_matrix_is_compressed_if_it_is_more_than_min_compression_times_as_large_as_its_factors():
    """6 x 3 elements are twice the 6 + 3 of the factors of rank 1."""
    least = [1.0, 1.99, 2.0, 2.01]
    assert [len(matrix_shapes([(6, 3)], Options(min_compression=each, rank=1))) for each in least] == [1, 1, 0, 0]


# --- whole runs


@pytest.mark.parametrize("workers", [1, 3])
def test_at_full_rank_it_is_synchronous_sgd(workers):
    """Up to rounding: of 5 x 6 and 3 x 5 matrices P is square. Where factors would be larger nothing is compressed."""
    dsync = small.run("dsync", workers=workers)
    full = small.run(NAME, {"rank": 5} | ALWAYS, workers=workers)
    torch.testing.assert_close(full.weights[0], dsync.weights[0])
    assert max(state["memory"].abs().max() for state in full.states) < 1e-5
    whole = small.run(NAME, {"rank": 5}, workers=workers)
    assert whole.bytes_sent == dsync.bytes_sent
    torch.testing.assert_close(whole.weights[0], dsync.weights[0])


@pytest.mark.parametrize(("workers", "rank"), [(1, 1), (2, 2), (3, 1), (3, 2), (6, 1)])
def test_it_is_algorithm_2_on_the_mean_gradient(workers, rank):
    """The compression is linear (Lemma 3): what all workers do is what one would do with the mean of their updates.

    Here by a reference without workers, with factors in double precision. Few steps, as rounding grows with each.
    """
    how = {"workers": workers, "build_model": deep, "steps": 5}
    found = small.run(NAME, {"rank": rank} | ALWAYS, **how)
    part = small.ModelShard(deep(), small.SGD, torch.device("cpu"))
    shapes = [p.shape for p in part.parameters]
    compressed = {one.number: one for one in matrix_shapes(shapes, Options(rank=rank, **ALWAYS))}
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(sum(m * r for *_, m, r in compressed.values()), generator=generator)
    pieces = drawn.split([m * r for *_, m, r in compressed.values()])
    Q = {i: piece.view(m, r).double() for (i, (*_, m, r)), piece in zip(compressed.items(), pieces)}
    weights, memory = part.weights.clone(), torch.zeros_like(part.weights)
    for iteration in range(5):
        each = [small.serial_gradient(weights, iteration, w, workers, build_model=deep) for w in range(workers)]
        update = torch.stack(each).mean(0) + memory
        sent = update.clone()
        for i, view in enumerate(part.views(sent)):
            if i in compressed:
                M = view.view(view.shape[0], -1).double()
                P = torch.linalg.qr(M @ Q[i]).Q
                Q[i] = M.T @ P
                view.copy_((P @ Q[i].T).view_as(view))
        memory = update - sent
        weights = weights - small.SGD.lr * sent
    torch.testing.assert_close(found.weights[0], weights, rtol=1e-4, atol=1e-5)
    mean = torch.stack([state["memory"] for state in found.states]).mean(0)
    torch.testing.assert_close(mean, memory, rtol=1e-3, atol=1e-5)
    assert rank == 2 or mean.norm() > 0.1  # so that the test would see an algorithm without error feedback


@pytest.mark.parametrize("workers", [2, 3])
def test_bytes_are_those_of_the_factors(workers):
    found = matrix_shapes([p.shape for p in deep().parameters()], Options(rank=1))
    assert [(n, m, r) for _, n, m, r in found] == [(8, 6, 1), (8, 8, 1), (3, 8, 1)]
    first, second = (8 + 8 + 3) + (8 + 8 + 3), 6 + 8 + 8  # all P and the biases, all Q
    sent = sum(small.run(NAME, {"rank": 1}, workers=workers, build_model=deep, steps=5).bytes_sent)
    assert sent == 5 * 4 * 2 * (workers - 1) * (first + second)


def test_resnet18_shrinks_as_in_the_paper():
    """The table of ResNet18's parameters in the paper's appendix: 43 MB in all, which rank 1 shrinks 243 times."""
    shapes = [p.shape for p in models.build_model("resnet18", (3, 32, 32), 10, 0, "meta").parameters()]
    compressed = matrix_shapes(shapes, Options(rank=1))
    assert [one.number for one in compressed] == [i for i, shape in enumerate(shapes) if len(shape) > 1]
    elements = sum(shape.numel() for shape in shapes)
    sent = sum(n + m for _, n, m, _ in compressed) + sum(shape.numel() for shape in shapes if len(shape) == 1)
    assert round(4 * elements / 2**20) == 43 and round(elements / sent) == 243


def test_it_begins_after_its_start():
    before = small.run(NAME, {"rank": 1, "start": 5}, workers=3, steps=5)
    assert before.digests == small.run("dsync", workers=3, steps=5).digests
    later = {"rank": 1, "start": 5}, {"rank": 1}
    assert len({small.run(NAME, options, workers=3, steps=6).digests[0] for options in later}) == 2


def test_arithmetic_costs_the_testbeds_prices():
    """Both products with the gradient, its projection and the reconstruction, by bytes of the whole gradient."""
    n = small.initial_weights().numel()
    per_byte = {f"{way}/powersgd_r1": cost for way, cost in (("encode", 1e-6), ("decode", 3e-6))}
    dear = small.Costs(True, per_byte, {})
    free, priced = (small.run(NAME, {"rank": 1}, steps=5, costs=costs).seconds for costs in (small.Costs(True), dear))
    assert priced - free == pytest.approx(5 * 4 * n * (2 * 1e-6 + 3e-6))
