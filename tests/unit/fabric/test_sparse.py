"""Sparse gradients: selection, the top-k operation, wire forms, and the collectives, on any number of ranks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from repro.core.errors import FaultError, InputError
from repro.fabric.sparse import on_host, selection
from repro.fabric.sparse.collectives import doubling_allgather, gtopk_allreduce, topk_allgather
from repro.fabric.sparse.gradients import EMPTY, Sparse, Wire, keep_topk, merge_at_once, merge_topk, sum_all
from repro.fabric.virtual import fabric as virtual

N = 500
ALPHA, BETA = 1e-4, 1e-9


def vector(kind: int, n: int, draw: torch.Generator) -> torch.Tensor:
    """Random, whole numbers (ties), mostly zeros, all equal, with NaN and infinity."""
    x = torch.randn(n, generator=draw)
    if kind == 1:
        return torch.randint(-3, 4, (n,), generator=draw).float()
    if kind == 2:
        x[n // 7 :] = 0
    if kind == 3:
        return torch.ones(n)
    if kind == 4:
        x[torch.randint(0, n, (2,), generator=draw)] = torch.nan
        x[0] = torch.inf
    return x


def ranked(x: torch.Tensor, k: int) -> list[int]:
    """The k largest magnitudes by plain sorting: NaN and infinity first, ties by index."""
    sizes = x.abs().nan_to_num(nan=torch.inf, posinf=torch.inf).tolist()
    return sorted(sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))[:k])


@pytest.mark.parametrize("seed", range(30))
def test_merging_on_the_cpu_and_on_a_gpu_gives_the_same_bits(seed):
    """With ties, common indices, EMPTY places, flags on one side or both."""
    draw = torch.Generator().manual_seed(seed)

    def part(k: int, empty: int, flagged: bool) -> Sparse:
        indices = torch.randperm(3 * k, generator=draw)[:k].sort().values.to(torch.int32)
        values = vector(seed % 3, k, draw)
        indices[k - empty :], values[k - empty :] = EMPTY, 0.0
        if flagged:
            indices[0], values[0] = -7 - k, 0.0
        return Sparse(values, indices)

    a, b = part(50, seed % 4, seed % 5 == 0), part(50 - seed % 3, seed % 7, seed % 2 == 0)
    (kept, rest), (kept_at_once, rest_at_once) = merge_topk(a, b, 40), merge_at_once(a, b, 40)
    for mine, other in ((kept, kept_at_once), (rest(), rest_at_once())):
        assert torch.equal(mine.indices, other.indices)
        assert torch.equal(mine.values.view(torch.int32), other.values.view(torch.int32))


@pytest.mark.parametrize("levels", [1, 2, 9, 10**6])
def test_the_kth_largest_of_many_is_a_sorts(levels, monkeypatch):
    """With ties, infinities, a sorted order that misleads the sample, and every k."""
    monkeypatch.setattr(on_host, "MANY", 10)
    draw = np.random.default_rng(levels)
    for trial in range(40):
        magnitudes = draw.integers(0, levels, 300).astype(np.float32)
        magnitudes[: trial % 4] = np.inf
        if trial % 3 == 0:
            magnitudes[:: on_host.EVERY] = -1.0  # the whole sample
        falling = np.sort(magnitudes)[::-1]
        for k in range(1, 301, 7):
            assert on_host.kth_largest(magnitudes, k) == falling[k - 1]


@pytest.mark.parametrize("chunk", [1 << 20, 64, 16])
def test_exact_selection_is_a_stable_sort(chunk, monkeypatch):
    """At once, in chunks with an estimated threshold, and with static shapes."""
    monkeypatch.setattr(selection, "SHORT", min(chunk, 1 << 15) // 2)
    monkeypatch.setattr(selection, "CHUNK", chunk)
    monkeypatch.setattr(selection, "SAMPLE", chunk // 2)
    draw = torch.Generator().manual_seed(0)
    for trial in range(100):
        n = int(torch.randint(2, N, (1,), generator=draw))
        k = int(torch.randint(1, n + 1, (1,), generator=draw))
        x = vector(trial % 5, n, draw)
        chosen = selection.select_topk(x, k)
        assert chosen.indices.tolist() == ranked(x, k)
        assert torch.equal(chosen.values.nan_to_num(), x[chosen.indices].nan_to_num())
        assert selection.exact_at_once(x, k).tolist() == ranked(x, k)


def test_sampled_selection_takes_the_largest(monkeypatch):
    """At most k, each at least as large as all others; EMPTY if fewer; NaN is always selected."""
    monkeypatch.setattr(selection, "SAMPLE", 200)
    draw = torch.Generator().manual_seed(1)
    short = 0
    for trial in range(40):
        x, k = vector(trial % 5, 4000, draw), 200
        chosen = selection.select_topk(x, k, "sampled")
        real = chosen.indices[chosen.indices != EMPTY].long()
        assert chosen.k == k and len(set(real.tolist())) == len(real)
        assert not chosen.values[len(real) :].any()
        short += len(real) < k
        sizes = x.abs().nan_to_num(nan=torch.inf, posinf=torch.inf)
        rest = torch.ones(len(x), dtype=torch.bool)
        rest[real] = False
        assert not rest[sizes.isinf()].any()
        assert sizes[real].min() >= sizes[rest].max()
    assert 0 < short < 40


class NothingRead(TorchDispatchMode):
    """Refuses to read a tensor's value on the host, which on a GPU waits for all launched work."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        assert operation._schema.name != "aten::_local_scalar_dense", "a tensor's value is read on the host"
        return operation(*args, **(kwargs or {}))


def test_sampled_selection_on_a_gpu_selects_the_same_but_zeros_and_reads_nothing_on_the_host(monkeypatch):
    monkeypatch.setattr(selection, "SAMPLE", 200)
    draw = torch.Generator().manual_seed(1)
    for trial in range(40):
        x, k = vector(trial % 5, 4000, draw), 200
        on_cpu = selection.select_topk(x, k, "sampled")
        with NothingRead():
            on_gpu = selection.sampled_at_once(x, k)
        assert on_gpu.tolist() == sorted(on_gpu.tolist())
        expected = on_cpu.indices[(on_cpu.indices != EMPTY) & (on_cpu.values != 0)]
        assert on_gpu[on_gpu != EMPTY].tolist() == expected.tolist(), trial
    for read in (lambda: x[0].item(), lambda: bool(x.isfinite().all())):
        with pytest.raises(AssertionError, match="read on the host"), NothingRead():
            read()


def test_the_input_of_the_finiteness_check_is_computed_without_reading_values():
    with NothingRead():
        state = Sparse(torch.tensor([1.0, torch.inf]), torch.tensor([-3, 5], dtype=torch.int32)).state()
    assert state.tolist() == [-3, 0]


def sparse(x: torch.Tensor, k: int) -> Sparse:
    return selection.select_topk(x, k)


def dense(parts: Sparse | list[Sparse], n: int = N) -> torch.Tensor:
    out = torch.zeros(n)
    for part in [parts] if isinstance(parts, Sparse) else parts:
        part.add_to(out)
    return out


@pytest.mark.parametrize("same", [0, 10, 25])
def test_merging_keeps_the_k_largest_sums_and_returns_the_rest(same):
    """Definition 1, with `same` common indices; whole numbers, so that sums are exact."""
    draw, k = torch.Generator().manual_seed(same), 25
    places = torch.randperm(N, generator=draw)
    for _ in range(20):
        values = torch.randint(-9, 10, (2, k), generator=draw).float()
        first, second = places[:k].sort().values, places[k - same : 2 * k - same].sort().values
        a, b = Sparse(values[0], first.int()), Sparse(values[1], second.int())
        kept, rest = merge_topk(a, b)
        dropped = rest()
        both = dense(a) + dense(b)
        union = sorted({*first.tolist(), *second.tolist()})
        expected = sorted(sorted(union, key=lambda i: (-abs(both[i].item()), i))[:k])
        assert kept.indices.tolist() == expected
        assert torch.equal(dense(kept), torch.where(torch.isin(torch.arange(N), kept.indices), both, 0.0))
        assert torch.equal(dense(kept) + dense(dropped), both)
        assert (kept.k, dropped.k) == (k, k)


def test_empty_places_do_not_change_the_last_element():
    x = torch.arange(1.0, 6.0)
    some = Sparse(torch.tensor([2.0, 5.0, 0.0]), torch.tensor([1, 4, EMPTY], dtype=torch.int32))
    some.clear(x)
    assert x.tolist() == [1, 0, 3, 4, 0]
    none = Sparse(torch.zeros(1), torch.tensor([EMPTY], dtype=torch.int32))
    y = torch.arange(1.0, 6.0)
    none.clear(y)
    none.add_to(y)
    assert y.tolist() == [1, 2, 3, 4, 5]


def test_the_sum_of_all_is_the_sum():
    draw = torch.Generator().manual_seed(2)
    xs = [torch.randint(-9, 10, (N,), generator=draw).float() for _ in range(5)]
    total = sum_all([sparse(x, 40) for x in xs])
    expected = sum(dense(sparse(x, 40)) for x in xs)
    assert torch.equal(dense(total), expected)
    assert dense(keep_topk(total, 40)).abs().sort().values[-40:].tolist() == expected.abs().sort().values[-40:].tolist()


@pytest.mark.parametrize("codec", ["none", "truncate16", "quantize8"])
def test_a_message_is_unpacked_to_what_was_packed(codec):
    x = torch.randn(N, generator=torch.Generator().manual_seed(3))
    mine, wire = sparse(x, 33), Wire(33, codec)
    message = wire.pack(mine)
    assert message.numel() == wire.bytes == {"none": 8 * 33, "truncate16": 6 * 33, "quantize8": 5 * 33 + 4}[codec]
    back = wire.unpack(message)
    assert torch.equal(back.indices, mine.indices)
    lost = wire.rounding(mine, message)
    torch.testing.assert_close(dense([back, *lost]), dense(mine), rtol=1e-6, atol=1e-7)
    assert (codec == "none") == (not lost)


# --- on ranks


def on_ranks(ranks: int, main) -> list:
    return virtual.run(ranks, main, virtual.Network(ALPHA, BETA))


def gradients(ranks: int, kind: str, k: int) -> list[torch.Tensor]:
    """Whole-number vectors. apart: no index in two ranks' selections; alike: the same indices in all."""
    draw = torch.Generator().manual_seed(ranks)
    base = torch.randint(-99, 100, (ranks, N), generator=draw).float()
    if kind == "apart":
        mask = torch.arange(N) % ranks == torch.arange(ranks)[:, None]
        return list(torch.where(mask, base.sign() * (base.abs() + 1), 0.0))
    if kind == "alike":
        return list(torch.where(torch.arange(N) % (N // k) == 0, base + 200, 0.0))
    return list(base)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("algorithm", ["doubling", "ring"])
def test_allgathers_are_in_rank_order(ranks, algorithm):
    wire = Wire(7)

    def main(fabric):
        mine = sparse(gradients(ranks, "random", 7)[fabric.rank], 7)
        parts = topk_allgather(fabric, wire.pack(mine), wire, algorithm=algorithm)
        return [dense(part) for part in parts], fabric.now()

    results = on_ranks(ranks, main)
    for parts, _ in results:
        assert all(torch.equal(a, dense(sparse(b, 7))) for a, b in zip(parts, gradients(ranks, "random", 7)))
    rounds = (ranks - 1).bit_length() if algorithm == "doubling" else ranks - 1
    assert max(s for _, s in results) == pytest.approx(rounds * ALPHA + (ranks - 1) * 56 * BETA)


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_an_allgather_of_odd_bytes(ranks):
    parts = on_ranks(ranks, lambda f: doubling_allgather(f, torch.full((3,), f.rank, dtype=torch.uint8)))
    assert all([part.tolist() for part in of_rank] == [[r] * 3 for r in range(ranks)] for of_rank in parts)


def reduce_all(ranks: int, xs: list[torch.Tensor], k: int) -> list[tuple]:
    def main(fabric):
        mine = sparse(xs[fabric.rank], k)
        reduced = gtopk_allreduce(fabric, mine, Wire(k))
        return reduced, mine, fabric.now()

    return on_ranks(ranks, main)


@pytest.mark.parametrize("ranks", [1, 2, 3, 6, 7, 8])
@pytest.mark.parametrize("kind", ["random", "apart", "alike"])
def test_gtopk_conserves_every_value_and_all_ranks_get_the_same(ranks, kind):
    """Kept and dropped partial sums add up to all that was sent, exactly (whole numbers)."""
    k = 20
    results = reduce_all(ranks, gradients(ranks, kind, k), k)
    kept = results[0][0].kept
    assert all(torch.equal(r.kept.indices, kept.indices) and torch.equal(r.kept.values, kept.values)
               for r, _, _ in results)  # fmt: skip
    sent = sum(dense(mine) for _, mine, _ in results)
    dropped = sum(dense(r.dropped) for r, _, _ in results)
    assert torch.equal(dense(kept) + dropped, sent)
    assert kept.k == k and sum(len(r.dropped) for r, _, _ in results) == ranks - 1


@pytest.mark.parametrize(("ranks", "kinds"), [(2, ("random", "apart", "alike")), (3, ("apart", "alike")),
                                              (4, ("apart", "alike")), (8, ("apart", "alike"))])  # fmt: skip
def test_the_tree_equals_the_naive_version_if_its_order_cannot_matter(ranks, kinds):
    """Algorithm 3 = Algorithm 2: for two ranks, and if no index, or every index, is common to all selections."""
    k = 20
    for kind in kinds:
        xs = gradients(ranks, kind, k)
        naive = keep_topk(sum_all([sparse(x, k) for x in xs]), k)
        assert torch.equal(dense(reduce_all(ranks, xs, k)[0][0].kept), dense(naive))


@pytest.mark.parametrize("ranks", [4, 8])
def test_how_the_tree_differs_from_the_naive_version(ranks):
    """It drops early. If all parts have one sign, no value exceeds its full sum, and the applied mass lies between the
    largest that one rank sent (a merge keeps at least its heavier side) and the naive version's."""
    k = 20
    xs = [x.abs() for x in gradients(ranks, "random", k)]
    naive, tree = keep_topk(sum_all([sparse(x, k) for x in xs]), k), reduce_all(ranks, xs, k)[0][0].kept
    whole = sum(dense(sparse(x, k)) for x in xs)
    assert (dense(tree) <= whole).all() and not torch.equal(dense(tree), dense(naive))
    assert max(sparse(x, k).mass() for x in xs) <= tree.mass() < naive.mass()


def test_a_value_that_the_printed_rule_loses():
    """Index 0 is dropped in one subtree and survives in the other (k = 1, 4 ranks)."""
    xs = [torch.tensor(x) for x in ([5.0, 0, 0], [0, 6.0, 0], [9.0, 0, 0], [0, 0, 1.0])]
    results = reduce_all(4, xs, 1)
    assert [(r.kept.indices.item(), r.kept.values.item()) for r, _, _ in results] == [(0, 9.0)] * 4
    lost = [dense([d.where(d.indices_in(r.kept)) for d in r.dropped], 3).tolist() for r, _, _ in results]
    assert lost == [[5.0, 0, 0], [0] * 3, [0] * 3, [0] * 3]


# --- not finite


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("codec", ["none", "truncate16", "quantize8"])
def test_a_flag_reaches_every_rank(bad, codec):
    starts, names = torch.tensor([0, 100, 300], dtype=torch.int32), ["a", "b", "c"]

    def main(fabric):
        x = gradients(3, "random", 9)[fabric.rank].clone()
        if fabric.rank == 1:
            x[150] = bad
        mine, wire = sparse(x, 9).flagged(fabric.rank, starts), Wire(9, codec)
        with pytest.raises(FaultError, match="NaN or infinity in the gradient of b on rank 1 at step 4"):
            Sparse.check(gtopk_allreduce(fabric, mine, wire).kept.state(), names, "at step 4")
        parts = topk_allgather(fabric, wire.pack(mine), wire)
        Sparse.check(parts[0].state(), names, "")
        with pytest.raises(FaultError, match="of b on rank 1"):
            Sparse.check(parts[1].state(), names, "")

    on_ranks(3, main)


def test_an_overflowing_sum_is_named():
    huge = Sparse(torch.tensor([3e38]), torch.tensor([1], dtype=torch.int32))
    with pytest.raises(FaultError, match="beyond float32 at step 2"):
        Sparse.check(merge_topk(huge, huge)[0].state(), ["a"], "at step 2")


def test_an_unknown_selection_is_refused():
    with pytest.raises(InputError, match="exact"):
        selection.select_topk(torch.ones(3), 1, "best")
