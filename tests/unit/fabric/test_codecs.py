"""Codecs against their definitions, alone and inside the rings on the virtual fabric."""

import math

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repro.core.errors import InputError
from repro.fabric.codecs import CODECS, make_codec
from repro.fabric.collectives.compressed import CompressedAllreduce
from repro.fabric.virtual.fabric import Network, run

NETWORK = Network(1e-6, 1e-9)
SMALLEST = 2.0**-149  # float32's least subnormal
floats = st.floats(width=32, allow_nan=False)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def vector(values):
    return torch.tensor(values, dtype=torch.float32)


def there_and_back(name, values):
    c = make_codec(name)
    return c.decode(c.encode(values), torch.full_like(values, 7.0))


def bits(tensor):
    return tensor.contiguous().numpy().view(numpy.uint32)


@given(st.lists(finite, min_size=1, max_size=60))
def test_truncation_rounds_towards_zero_by_less_than_a_128th(values):
    values = vector(values).double()
    back = there_and_back("truncate16", values.float()).double()
    assert (back.abs() <= values.abs()).all() and (back * values >= 0).all()
    normal = values.abs() >= torch.finfo(torch.float32).tiny
    assert ((values - back).abs() < values.abs() * 2**-7)[normal].all()


def test_truncation_of_every_exponent():
    patterns = torch.arange(-(2**31), 2**31, 65521, dtype=torch.int64).to(torch.int32)  # a prime: all kinds of bits
    values = patterns.view(torch.float32)
    values = values[~values.isnan()]
    assert (bits(there_and_back("truncate16", values)) == (bits(values) & 0xFFFF0000)).all()


def test_quantisation_rounds_halves_to_even():
    """Steps of a scale where they are exact: half of the halves go up, half down, and those of -v as those of v."""
    values = torch.cat([torch.tensor([127.0]), torch.arange(-126.5, 127.0)])
    halves = values[values.div(127).mul(127).frac().abs() == 0.5]  # as float32 computes the levels
    assert len(halves) > 50
    back = there_and_back("quantize8", torch.cat([torch.tensor([127.0]), halves]))[1:]
    levels = back.div(127).mul(127).round()
    assert (levels % 2 == 0).all()


def check_quantized(values):
    """Every element within half a step; the largest comes back to 1 ulp."""
    values = vector(values)
    wire = make_codec("quantize8").encode(values)
    assert (
        wire.numel() == 4 + len(values) == make_codec("quantize8").wire_bytes(len(values)) and wire.element_size() == 1
    )
    back = there_and_back("quantize8", values).double()
    exact = values.double()
    largest = exact.abs().max().item() if len(values) else 0.0
    # half a step, and what float32 cannot help: rounding of the quotient (of up to 127) and of the product
    bound = largest / 254 + largest * 2**-22 + SMALLEST / 2
    assert ((back - exact).abs() <= bound).all(), (values, back)
    for i in (exact.abs() == largest).nonzero().flatten():
        assert abs(back[i] - exact[i]) <= max(abs(exact[i]) * 2**-23, SMALLEST), (values[i], back[i])
    assert (back[exact == 0] == 0).all()


@given(st.lists(finite, max_size=60))
def test_quantization_error(values):
    check_quantized(values)


@given(st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=30), st.integers(-149, 107))
def test_quantization_error_at_every_scale(mantissas, exponent):
    check_quantized([math.ldexp(m, exponent) for m in mantissas])


def test_quantization_of_subnormals():
    """Vectors of every multiple of the smallest number up to m, for many m up to the normal numbers.

    Up to 127 there is a level for each; above, half a step alone is not enough.
    """
    for m in [*range(1, 600, 7), *range(120, 135), 1000, 4097, 65537, 2**23 - 1, 2**23, 2**23 + 1]:
        values = [n * SMALLEST for n in range(0, m + 1, max(1, m // 1000))] + [-m * SMALLEST]
        check_quantized(values)
        if m <= 127:
            assert there_and_back("quantize8", vector(values)).tolist() == values
    values = vector([n * SMALLEST for n in range(129)])
    assert (there_and_back("quantize8", values) - values).abs().max() == SMALLEST > 128 * SMALLEST / 254


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_divergence_stays_visible(name, bad):
    for place in range(3):
        values = vector([1.0, -2.0, 3.0])
        values[place] = bad
        assert not there_and_back(name, values)[place].isfinite()


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("p", [1, 3])
def test_divergence_passes_the_ring(name, p):
    for bad in (math.nan, math.inf):
        gradients = [torch.ones(9) for _ in range(p)]
        gradients[p - 1][4] = bad
        for total, _ in ring(name, gradients):
            assert not total[4].isfinite()


@pytest.mark.parametrize("name", CODECS)
def test_codecs_work_without_arithmetic(name):
    c = make_codec(name)
    for n in (0, 5):
        values = torch.empty(n, device="meta")
        wire = c.encode(values)
        assert wire.device.type == "meta" and wire.numel() * wire.element_size() == c.wire_bytes(n)
        assert c.decode(wire, torch.empty(n, device="meta")).shape == (n,)
        again = c.add(c.encode(torch.empty(n, device="meta")), wire, n)
        assert again.shape == wire.shape and again.dtype == wire.dtype


@pytest.mark.parametrize("name", ["truncate16", "quantize8", "ternary"])
def test_a_wire_form_shares_no_memory(name):
    values = torch.tensor([2.0, -2.0])
    wire = make_codec(name).encode(values)
    values.zero_()
    assert torch.equal(make_codec(name).decode(wire, torch.empty(2)), torch.tensor([2.0, -2.0]))


def test_unknown_codec():
    with pytest.raises(InputError, match="unknown codec 'truncate'; valid: truncate16"):
        make_codec("truncate")
    with pytest.raises(InputError, match="needs algorithm 'ring'"):
        run(1, lambda fabric: CompressedAllreduce(fabric, 4, "truncate16", "tree"), NETWORK)


# inside the rings


def ring(name, gradients, algorithm="ring", pieces=4):
    """Each rank's vector after compress, reduce, decompress; the bounds of what is encoded together."""
    n = len(gradients[0])

    def main(fabric):
        work = CompressedAllreduce(fabric, n, name, algorithm, pieces=pieces)
        blocks = work.reduce(work.compress(gradients[fabric.rank].clone()))
        return work.decompress(blocks, torch.full((n,), 7.0)), work.bounds

    return run(len(gradients), main, NETWORK)


def bound(name, gradients, cut):
    """The largest possible error, element by element, of p - 1 hops and the encodings before and after.

    truncate16: each of the p encodings (the first, and one a hop) has an error below 2^-7 of a partial sum, which never
    exceeds the sum of magnitudes A: p A 2^-7. Each rank's own gradient is encoded once too: one more A 2^-7. quantize8
    likewise with half a step, 1/254 of the largest magnitude M of the partial sums in the block or piece.
    """
    p = len(gradients)
    magnitudes = torch.stack(gradients).double().abs().sum(0)
    if name == "none":
        return magnitudes * p * 2**-24
    if name == "truncate16":
        return magnitudes * (p + 1) * 2**-7
    if name == "ternary":  # random: no partial sum is above the sum of the ranks' largest values, on either side
        largest = sum(gradient.abs().max().double() for gradient in gradients)
        return 1.01 * largest + magnitudes
    share = (2 * p - 1) / 254 * (1 + 1 / 254) ** p  # partial sums carry the errors of those before
    parts = [magnitudes[start:end] for start, end in cut if end > start]
    return torch.cat([torch.full_like(part, part.max().item()) for part in parts]) * share


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    ("p", "n", "algorithm", "pieces"),
    [(1, 5, "ring", 1), (2, 240, "ring", 1), (3, 1, "ring", 1), (6, 240, "ring", 1), (2, 21, "ring_pipelined", 3),
     (6, 61, "ring_pipelined", 7)],
)  # fmt: skip
def test_ring_with_codec(name, p, n, algorithm, pieces):
    gradients = [
        torch.randn(n, generator=torch.Generator().manual_seed(100 * p + rank)) * torch.logspace(-3, 3, n)
        for rank in range(p)
    ]
    (total, cut), *others = ring(name, gradients, algorithm, pieces)
    assert all((bits(other) == bits(total)).all() for other, _ in others)
    error = total.double() - torch.stack(gradients).double().sum(0)
    assert (error.abs() <= bound(name, gradients, cut) * (1 + 1e-6) + 1e-30).all()
    assert (bits(ring(name, gradients, algorithm, pieces)[0][0]) == bits(total)).all()


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("p", [1, 3, 4])
def test_bytes_on_the_wire(name, p):
    n = 12 * p

    def main(fabric):
        work = CompressedAllreduce(fabric, n, name, "ring")
        work.reduce(work.compress(torch.randn(n)))
        return fabric.bytes_sent

    assert run(p, main, NETWORK) == [2 * (p - 1) * make_codec(name).wire_bytes(12)] * p
