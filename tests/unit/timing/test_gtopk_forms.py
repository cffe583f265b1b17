"""Table I of gTop-k: the closed forms against the collectives on the virtual fabric; devices with published times."""

from __future__ import annotations

import math

import pytest
import torch

from repro import models
from repro.common.errors import InputError
from repro.experiment import config as configs
from repro.experiment import testbeds
from repro.fabric import collectives, virtual
from repro.fabric.selection import select
from repro.fabric.sparse import Sparse, Wire
from repro.fabric.sparse_collectives import gtopk_allreduce, topk_allgather
from repro.launch import runs
from repro.timing import closed_forms as forms
from repro.timing.costs import Costs
from repro.timing.device import BACKWARD_TO_FORWARD, block_flops, block_seconds
from repro.timing.sparse_forms import NAMES
from tests.support import probes

ALPHA, BETA, GAMMA, MERGE = 4.36e-4, 9e-9, 3e-10, 2.5e-8
EXACT = {"rel": 1e-11}  # a few hundred additions of doubles


def seconds(name: str, p: int, elements: int, k: int, device: str = "meta", codec: str = "none") -> float:
    """Virtual seconds of one collective by all ranks, from packing to the last rank's result."""
    costs = Costs(True, {"reduce": GAMMA, "merge": MERGE}, {"sync": 0.0})

    def rank(fabric: virtual.VirtualFabric) -> float:
        vector = torch.empty(elements, device=device)
        if device != "meta":
            vector.normal_(generator=torch.Generator().manual_seed(fabric.rank))
        if name == "dense":
            collectives.ring_allreduce(fabric, vector)
            return fabric.now()
        wire, mine = Wire(k, codec), select(vector, k)
        if name == "gtopk":
            gtopk_allreduce(fabric, mine, wire)
        else:
            algorithm = "ring" if name == "topk_ring" else "doubling"
            topk_allgather(fabric, wire.pack(mine), wire, algorithm=algorithm)
        return fabric.now()

    return max(virtual.run(p, rank, virtual.Network(ALPHA, BETA), costs))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32])
def test_the_virtual_fabric_takes_the_closed_form_s_time(name: str, p: int) -> None:
    for elements, k in ((1000, 1), (25_000_000, 25_000)):
        expected = forms.sparse_collective(name, p, 4 * elements, k, ALPHA, BETA, GAMMA, MERGE)
        assert seconds(name, p, elements, k) == pytest.approx(expected, **EXACT)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("p", [3, 4])
def test_arithmetic_does_not_change_the_time(name: str, p: int) -> None:
    assert seconds(name, p, 1000, 10, "cpu") == seconds(name, p, 1000, 10)


@pytest.mark.parametrize("codec", ["truncate16", "quantize8"])
def test_shorter_elements(codec: str) -> None:
    p, k = 4, 4000
    element = Wire(k, codec).bytes / k
    assert 4 < element < forms.ELEMENT == Wire(k).bytes / k
    for name in ("topk", "topk_ring"):
        expected = forms.sparse_collective(name, p, 0, k, ALPHA, BETA, element=element)
        assert seconds(name, p, 10 * k, k, codec=codec) == pytest.approx(expected, **EXACT)
    wire = forms.gtopk_tree(p, k, ALPHA, BETA, MERGE, element)
    assert seconds("gtopk", p, 10 * k, k, codec=codec) == pytest.approx(wire, **EXACT)


@pytest.mark.parametrize("p", [2, 4, 8, 64])
def test_powers_of_two_are_the_table_s(p: int) -> None:
    m, density = 100e6, 0.001
    k, in_bytes, log = round(density * m / 4), density * m, math.log2(p)  # Table I: k = rho m
    assert forms.topk_doubling(p, k, ALPHA, BETA) == pytest.approx(log * ALPHA + 2 * (p - 1) * in_bytes * BETA)
    assert forms.gtopk_tree(p, k, ALPHA, BETA) == pytest.approx(2 * log * ALPHA + 4 * in_bytes * log * BETA)
    assert forms.gtopk_tree(p, k, ALPHA, BETA, MERGE) == pytest.approx(forms.gtopk_rounds(p, k, ALPHA, BETA, MERGE))
    dense = forms.dense(p, int(m), ALPHA, BETA)
    assert dense == pytest.approx(2 * (p - 1) * ALPHA + 2 * (p - 1) / p * m * BETA)


@pytest.mark.parametrize("p", [3, 5, 6, 7, 12, 31])
def test_other_numbers_of_ranks_are_within_the_rounds(p: int) -> None:
    for k in (1, 25_000):
        tree = forms.gtopk_tree(p, k, ALPHA, BETA, MERGE)
        assert 0 < tree < forms.gtopk_rounds(p, k, ALPHA, BETA, MERGE)


def test_one_rank_sends_nothing() -> None:
    assert {forms.sparse_collective(name, 1, 400, 10, ALPHA, BETA, GAMMA, MERGE) for name in NAMES} == {0.0}


def test_ranks_agree_on_what_comes_out() -> None:
    """The calls that are timed here do what they are timed for."""

    def rank(fabric: virtual.VirtualFabric) -> Sparse:
        vector = torch.arange(8.0) * (fabric.rank + 1)
        return gtopk_allreduce(fabric, select(vector, 2), Wire(2)).kept

    for kept in virtual.run(3, rank, virtual.Network(ALPHA, BETA)):
        assert kept.indices.tolist() == [6, 7] and kept.values.tolist() == [36.0, 42.0]


# --- Table VI


PAPER = {"vgg16": (0.097, 128), "resnet20": (0.146, 128), "alexnet": (0.369, 64), "resnet50": (4.842, 256)}
SHAPES = {"vgg16": (3, 32, 32), "resnet20": (3, 32, 32), "alexnet": (3, 227, 227), "resnet50": (3, 224, 224)}


@pytest.mark.parametrize("model", PAPER)
def test_a_published_iteration_is_shared_by_flops(model: str) -> None:
    device = testbeds.testbed_of(
        configs.compose("pipesgd/fig4-mnist", [f"testbed=paper/gtopk-{model}"])["testbed"]
    ).device
    iteration_s, batch = PAPER[model]
    assert (device.iteration_s, device.batch) == (iteration_s, batch)
    classes = 10 if SHAPES[model][1] == 32 else 1000
    built = models.build(model, SHAPES[model], classes, 0, "meta")
    found = block_seconds(built, SHAPES[model], batch, device)
    assert sum(found.forward) + sum(found.backward) == pytest.approx(iteration_s)
    assert sum(found.backward) == pytest.approx(BACKWARD_TO_FORWARD * sum(found.forward))
    flops = block_flops(built, SHAPES[model], batch)
    assert [s / sum(found.forward) for s in found.forward] == pytest.approx([f / sum(flops) for f in flops])
    quarter = block_seconds(built, SHAPES[model], batch // 4, device)
    assert sum(quarter.forward) == pytest.approx(sum(found.forward) / 4)


def test_the_published_time_counts_before_the_rate() -> None:
    built = models.build("resnet20", (3, 32, 32), 10, 0, "meta")
    rate = {"name": "x", "peak_flops": 1e12, "utilisation": 0.5, "launch_s": 1e-5}
    published = {"iteration_s": 0.1, "batch": 10}
    both, alone = (
        testbeds.testbed_of(probes.TESTBED | {"device": given}).device for given in (rate | published, published)
    )
    assert block_seconds(built, (3, 32, 32), 10, both) == block_seconds(built, (3, 32, 32), 10, alone)


@pytest.mark.parametrize(("device", "says"), [
    ("P102-100", "testbed.device=P102-100: must be entries, as testbed.device.NAME=value"),
    ({"name": "x"}, "lacks peak_flops and utilisation and launch_s"),
    ({"iteration_s": 1.0}, "lacks batch"),
    ({"iteration_s": 0, "batch": 4}, "testbed.device.iteration_s=0: must be above 0"),
    ({"iteration_s": 1.0, "batch": "many"}, "testbed.device.batch=many: must be a number"),
    ({"iteration_s": 1.0, "batch": True}, "testbed.device.batch=True: must be a number"),
    ({"iteration_s": float("inf"), "batch": 1}, "testbed.device.iteration_s=inf: must be a finite number"),
    ({"peak_flops": 1e12, "utilisation": 0.5, "launch_s": -1}, "testbed.device.launch_s=-1: must be 0 or more"),
    ({"iteraton_s": 1.0, "batch": 4}, "unknown entry of testbed.device 'iteraton_s'; valid: iteration_s"),
])  # fmt: skip
def test_a_device_that_cannot_be_used_is_one_clear_line(device, says) -> None:
    with pytest.raises(InputError, match=says):
        testbeds.testbed_of(probes.TESTBED | {"device": device})


def test_a_wrong_device_is_found_before_ranks_start() -> None:
    with pytest.raises(InputError, match=r"testbed\.device\.batch=0"):
        runs.expand("pipesgd/fig4-mnist", ["testbed=paper/gtopk-vgg16", "testbed.device.batch=0", "strategy=dsync"])
