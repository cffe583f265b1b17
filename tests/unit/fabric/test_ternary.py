"""The codec `ternary` against TernGrad's definition: its wire form, its expectation, its random numbers."""

import pytest
import torch

from repro.fabric.codecs import make_codec
from repro.fabric.collectives.compressed import RINGS, CompressedAllreduce
from repro.fabric.virtual.fabric import Network, run
from repro.testing import small

NETWORK = Network(1e-6, 1e-9)


def there_and_back(c, values):
    return c.decode(c.encode(values), torch.full_like(values, 7.0))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 8, 9, 1000])
def test_levels_and_bytes(n):
    c, values = make_codec("ternary"), torch.randn(n, generator=torch.Generator().manual_seed(n))
    wire = c.encode(values)
    assert wire.dtype == torch.uint8 and wire.numel() == 4 + -(-n // 4) == c.wire_bytes(n)
    back = there_and_back(c, values)
    if n:
        scale = values.abs().max()
        assert set(back.div(scale).tolist()) <= {0.0, 1.0, -1.0}
        assert (back * values >= 0).all()  # a sign never turns
        assert back[values.abs().argmax()] == values[values.abs().argmax()]  # probability 1


def test_the_wire_form_is_two_bits_in_four_strips():
    values = torch.tensor([2.0, -2.0, 0.0, 2.0, 2.0, -2.0])  # q = 2: elements 0 2 4 and 1 3 5 with a gap at 6, 7
    wire = make_codec("ternary").encode(values)
    assert wire[:4].view(torch.float32).item() == 2.0
    assert wire[4:].tolist() == [0b01_00_01 | 0 << 6, 0b10_01_10 | 0 << 6]


@pytest.mark.parametrize(
    "values", [[0.0], [0.0] * 5, [3.0, -3.0, 0.0], [1e-45, 0.0, -1e-45], [3.4028235e38, 0.0]], ids=str
)
def test_ternary_vectors_are_decoded_exactly(values):
    values = torch.tensor(values)
    for seed in range(5):
        assert torch.equal(there_and_back(make_codec("ternary", seed), values), values)


def test_it_is_unbiased():
    """The mean of 20,000 draws is within 5 standard deviations, sqrt(q (1 - q) / 20,000) s, of each element."""
    turns, values = 20_000, torch.tensor([4.0, -2.0, 1.0, 0.1, -0.004, 0.0, 3.9])
    mean = there_and_back(make_codec("ternary", seed=5), values.repeat(turns)).view(turns, 7).double().mean(0)
    share = values.double().abs() / 4
    bound = 5 * 4 * (share * (1 - share) / turns).sqrt()
    assert ((mean - values.double()).abs() <= bound).all()


def test_a_seed_gives_the_same_bits_whatever_else_draws_numbers():
    values = torch.randn(500, generator=torch.Generator().manual_seed(1))
    first, second, other = make_codec("ternary", 3), make_codec("ternary", 3), make_codec("ternary", 4)
    for _ in range(3):
        wire = first.encode(values)
        torch.rand(7)
        assert torch.equal(wire, second.encode_in_place(values.clone()))
        assert not torch.equal(wire, other.encode(values))


def test_its_state_resumes_the_random_numbers():
    values = torch.randn(100, generator=torch.Generator().manual_seed(1))
    c = make_codec("ternary", 3)
    fresh = c.state_dict()
    first = c.encode(values)
    state = c.state_dict()
    second = c.encode(values)
    again = make_codec("ternary", 99)
    again.load_state_dict(state)
    assert torch.equal(again.state_dict()["generator"], state["generator"])  # also before it is used
    assert torch.equal(again.encode(values), second)
    again = make_codec("ternary", 3)
    again.load_state_dict(fresh)
    assert torch.equal(again.encode(values), first)
    c.load_state_dict(state)  # back in time
    assert torch.equal(c.encode(values), second)


@pytest.mark.parametrize("algorithm", RINGS)
@pytest.mark.parametrize("p", [2, 6])
def test_sums_are_unbiased(algorithm, p):
    """The mean over many draws approaches the sum: five values a rank, each repeated N times in a vector, two seeds.

    Each of an element's 2p - 1 encodings adds at most the variance s^2/4, s being at most the sum of the ranks' largest
    values, so 3 s sqrt((2p - 1)/N) is 6 standard deviations of the mean or more.
    """
    values = [torch.randn(5, generator=torch.Generator().manual_seed(50 + rank)) for rank in range(p)]
    exact, scale, repeats = torch.stack(values).double().sum(0), sum(v.abs().max().item() for v in values), 4000

    def main(fabric, seed):
        work = CompressedAllreduce(fabric, 5 * repeats, "ternary", algorithm, pieces=2, seed=seed)
        blocks = work.reduce(work.compress(values[fabric.rank].repeat(repeats)))
        return work.decompress(blocks, torch.empty(5 * repeats)).view(repeats, 5).double().mean(0)

    means = [run(p, lambda fabric, seed=seed: main(fabric, seed), NETWORK)[0] for seed in range(2)]
    assert not torch.equal(*means)
    for mean, draws in [(mean, repeats) for mean in means] + [(torch.stack(means).mean(0), 2 * repeats)]:
        assert ((mean - exact).abs() <= 3 * scale * ((2 * p - 1) / draws) ** 0.5).all()


@pytest.mark.parametrize("algorithm", RINGS)
@pytest.mark.parametrize("p", [1, 3])
def test_an_allreduce_resumes_with_the_same_bits(p, algorithm):
    def main(fabric):
        def make(seed):
            return CompressedAllreduce(fabric, 50, "ternary", algorithm, seed=seed)

        def once(allreduce, turn):
            values = torch.randn(50, generator=torch.Generator().manual_seed(10 * turn + fabric.rank))
            return allreduce.decompress(allreduce.reduce(allreduce.compress(values)), torch.empty(50))

        through = make(seed=1)
        sums = [once(through, turn) for turn in range(4)]
        before = make(seed=1)
        once(before, 0), once(before, 1)
        after = make(seed=2)
        after.load_state_dict(before.state_dict())
        assert torch.equal(once(after, 2), sums[2]) and torch.equal(once(after, 3), sums[3])
        assert not torch.equal(once(make(seed=2), 0), sums[0])

    run(p, main, NETWORK)


def test_ranks_and_threads_have_noise_of_their_own():
    """The streams of all ranks, for compressing and for the hops, differ; compressing ahead changes no hop's bits."""
    values = torch.full((400,), 0.5)
    values[0] = 1.0

    def main(fabric):
        allreduce = CompressedAllreduce(fabric, 400, "ternary", "ring")
        return allreduce.codec.encode(values), allreduce.hop_codec.encode(values)

    wires = [wire for pair in run(3, main, NETWORK) for wire in pair]
    for i, wire in enumerate(wires):
        assert not any(torch.equal(wire, other) for other in wires[:i])

    def ahead(fabric, early):
        allreduce = CompressedAllreduce(fabric, 40, "ternary", "ring")
        blocks = [allreduce.compress(values[:40]) for _ in range(2)] if early else [allreduce.compress(values[:40])]
        sums = [allreduce.reduce(blocks[0])]
        if not early:
            blocks.append(allreduce.compress(values[:40]))
        sums.append(allreduce.reduce(blocks[1]))
        return [block.tolist() for blocks in sums for block in blocks]

    assert run(3, lambda f: ahead(f, True), NETWORK) == run(3, lambda f: ahead(f, False), NETWORK)


@pytest.mark.parametrize(
    ("name", "options"),
    [("dsync", {"algorithm": "ring"}), ("pipe_sgd", {"K": 1, "algorithm": "ring"}),
     ("pipe_sgd", {"K": 3, "algorithm": "ring_pipelined"})], ids=str,
)  # fmt: skip
def test_strategies_train_and_resume_with_the_same_bits(name, options):
    options = options | {"codec": "ternary"}
    whole = small.run(name, options, workers=3)
    assert len(set(whole.digests)) == 1 and all(loss == loss for losses in whole.losses for loss in losses)
    assert small.run(name, options, workers=3, stop_and_resume_at=5).digests == whole.digests
