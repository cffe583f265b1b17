"""Wait-free backpropagation: buckets, D-Sync's weights, and the time of a step."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from torch import nn

from repro import models, strategies
from repro.algorithms.timing import collective_forms, step_forms
from repro.fabric.codecs import make_codec
from repro.fabric.costs import Costs
from repro.testing import small
from repro.training.buckets import ddp_buckets
from repro.training.device_times import BlockSeconds

MIB = 2**20
SIZES = [48, 8, 32, 4, 16, 4, 12]  # elements of the parameters below, in order; in rings of 2 and 4 chunks are equal
BUSY = BlockSeconds([1e-3] * 4, [2e-3, 1e-3, 3e-3, 2e-3])


def model() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first, second, third = nn.Linear(small.INPUTS, 8), nn.Linear(8, 4), nn.Linear(4, 4)
        last = nn.Linear(4, small.CLASSES, bias=False)
    return nn.Sequential(OrderedDict(a=first, b=second, c=nn.Sequential(third, nn.Tanh()), d=last))


def mib(elements: int) -> float:
    return 4 * elements / MIB


def run(options=None, name="wfbp", blocks=BUSY, **how):
    return small.run(name, options, build_model=model, blocks=lambda rank: blocks, **how)


# --- buckets


@pytest.mark.parametrize(
    ("first", "limit", "elements"),
    [
        (0, 0, SIZES[::-1]),  # a bucket a parameter
        (1, 1, SIZES[::-1]),
        (12, 12, [12, 20, 36, 56]),  # closed by the parameter that comes to the limit, or beyond it
        (13, 13, [16, 16, 36, 8 + 48]),
        (1, 40, [12, 16 + 4 + 4 + 32, 8 + 48]),  # the first has a limit of its own
        (200, 1, [124]),
        (125, 125, [124]),  # never full: what is left is a bucket too
    ],
)
def test_a_bucket_closes_with_the_parameter_that_fills_it(first, limit, elements):
    found = ddp_buckets(list(model().children()), 4 * first, 4 * limit)
    assert [bucket.end - bucket.start for bucket in found] == elements


def test_buckets_cover_the_vector_from_its_end():
    blocks = list(model().children())
    for limit in range(0, 130, 9):
        found = ddp_buckets(blocks, 4 * limit, 4 * limit)
        assert found[0].end == sum(SIZES) and found[-1].start == 0
        assert all(later.end == sooner.start for sooner, later in pairwise(found))
        assert [p for b in reversed(found) for p in b.parameters] == [p for m in blocks for p in m.parameters()]
    inside = ddp_buckets(blocks, 0, 0)[1]  # the bias of block 2
    assert (inside.blocks, inside.trained) == (range(2, 3), {2})


@pytest.mark.parametrize("bucket_mb", [None, 1, 5])
def test_they_are_ddp_s_own_after_its_first_pass(tmp_path, bucket_mb):
    """What DistributedDataParallel really hands over for ResNet-20, in the order of its backward pass."""
    net = models.build_model("resnet20", (3, 32, 32), 10, 0)
    alone = not dist.is_initialized()
    if alone:
        dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    sizes = []

    def record(_, bucket):
        sizes.append(bucket.buffer().numel())
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    try:
        ddp = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=bucket_mb)
        ddp.register_comm_hook(None, record)
        for _ in range(2):
            sizes.clear()
            ddp(torch.randn(2, 3, 32, 32)).sum().backward()
    finally:
        if alone:
            dist.destroy_process_group()
    ours = ddp_buckets(list(net.children()), MIB * (bucket_mb or 1), MIB * (bucket_mb or 25))
    assert [bucket.end - bucket.start for bucket in ours] == sizes


# --- weights


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("options", [{}, {"codec": "quantize8"}, {"codec": "ternary"}, {"algorithm": "tree"}])
def test_one_bucket_is_dsync_bit_for_bit(workers, options):
    dsync = run(options, "dsync", workers=workers, optimizer=small.SGD.model_copy(update={"momentum": 0.9}))
    one = run(options, workers=workers, optimizer=small.SGD.model_copy(update={"momentum": 0.9}))
    assert (one.digests, one.losses, one.bytes_sent) == (dsync.digests, dsync.losses, dsync.bytes_sent)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("limit", [0, 13, 40])
def test_buckets_change_the_order_of_summation_alone(workers, limit):
    small_buckets = {"bucket_mb": mib(limit), "first_bucket_mb": mib(limit)}
    found = run(small_buckets, workers=workers)
    torch.testing.assert_close(found.weights[0], run(name="dsync", workers=workers).weights[0])
    assert len(set(found.digests)) == 1
    if workers == 2:  # two summands have one sum, wherever chunks begin
        assert found.digests == run(name="dsync", workers=workers).digests


@pytest.mark.parametrize("codec_name", ["truncate16", "quantize8", "ternary"])
def test_it_resumes_in_the_middle(codec_name):
    options = {"codec": codec_name, "bucket_mb": mib(13), "first_bucket_mb": 0}
    whole = run(options, workers=3)
    for stop in (1, 6):
        assert run(options, workers=3, stop_and_resume_at=stop).digests == whole.digests


# --- time


@pytest.mark.parametrize("name", ["none", "quantize8"])
@pytest.mark.parametrize("limit", [0, 13, 200])
@pytest.mark.parametrize("scale", [1e-2, 10.0])
def test_a_step_takes_the_time_of_its_closed_form(name, limit, scale, workers=4):
    """Forward, then backward passes with each bucket's allreduce behind the one before, then the update."""
    costs = Costs(True, {"reduce": 1e-8, "update": 1e-7, "encode/quantize8": 9e-8, "decode/quantize8": 7e-8}, {})
    blocks = BlockSeconds([scale * 1e-4] * 4, [scale * each for each in (2e-4, 1e-4, 3e-4, 2e-4)])
    cut, used = ddp_buckets(list(model().children()), 4 * limit, 4 * limit), make_codec(name)
    sizes, done, backward = [4 * (b.end - b.start) for b in cut], 4, []
    for bucket, n in zip(cut, sizes):  # blocks whose pass has to end before it leaves
        lowest = min(bucket.blocks.start, done)
        backward.append(sum(blocks.backward[lowest:done]) + collective_forms.codec_device(n, costs, used)[0])
        done = lowest
    network = small.NETWORK.alpha, small.NETWORK.beta
    communication = [collective_forms.ring_encoded(workers, n, *network, costs, used) for n in sizes]
    update = costs.seconds("update", 4 * sum(SIZES)) + sum(
        collective_forms.codec_device(n, costs, used)[1] for n in sizes
    )
    expected = step_forms.pipe_segmented_limited(1, 1, update, sum(blocks.forward), backward, communication)
    options = {"codec": name, "bucket_mb": mib(limit), "first_bucket_mb": mib(limit)}
    assert run(options, workers=workers, blocks=blocks, costs=costs).seconds == pytest.approx(12 * expected, rel=1e-9)


# --- options


def test_it_is_its_own_twin():
    wfbp = strategies.load_strategy("wfbp")
    assert wfbp.twin(wfbp.parse({"bucket_mb": 3}))[1]["bucket_mb"] == 3
    for name in strategies.strategy_names():
        strategy = strategies.load_strategy(name)
        if (twin := strategy.twin(strategy.parse({}))) is not None:
            strategies.load_strategy(twin[0]).parse(twin[1])
