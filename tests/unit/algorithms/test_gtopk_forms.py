"""Closed forms of gTop-k's collectives, published iteration times, and collectives on links with fair sharing."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from repro import models
from repro.algorithms.timing import collective_forms, sparse_forms
from repro.algorithms.timing.sparse_forms import NAMES
from repro.core.errors import InputError
from repro.experiment import config as configs
from repro.experiment import testbeds
from repro.fabric.collectives import dense as collectives
from repro.fabric.costs import Costs
from repro.fabric.sparse.collectives import gtopk_allreduce, topk_allgather
from repro.fabric.sparse.gradients import Wire
from repro.fabric.sparse.selection import select_topk
from repro.fabric.virtual import fabric as virtual
from repro.fabric.virtual.fabric import Network
from repro.training.device_times import BACKWARD_TO_FORWARD, block_flops, block_seconds
from tests.support import forms, probes
from tests.support.stepping import timed_call

# --- Table I


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
        wire, mine = Wire(k, codec), select_topk(vector, k)
        if name == "gtopk":
            gtopk_allreduce(fabric, mine, wire)
        else:
            algorithm = "ring" if name == "topk_ring" else "doubling"
            topk_allgather(fabric, wire.pack(mine), wire, algorithm=algorithm)
        return fabric.now()

    return max(virtual.run(p, rank, virtual.Network(ALPHA, BETA), costs))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("p", [1, 2, 3, 6, 12, 16])
def test_the_virtual_fabric_takes_the_closed_form_s_time(name: str, p: int) -> None:
    for elements, k in ((1000, 1), (25_000_000, 25_000)):
        expected = sparse_forms.sparse_collective(name, p, 4 * elements, k, ALPHA, BETA, GAMMA, MERGE)
        assert seconds(name, p, elements, k) == pytest.approx(expected, **EXACT)
    if p in (3, 6):  # arithmetic does not change the time
        assert seconds(name, p, 1000, 10, "cpu") == seconds(name, p, 1000, 10)


@pytest.mark.parametrize("codec", ["truncate16", "quantize8"])
def test_shorter_elements(codec: str) -> None:
    p, k = 4, 4000
    element = Wire(k, codec).bytes / k
    assert 4 < element < sparse_forms.ELEMENT == Wire(k).bytes / k
    for name in ("topk", "topk_ring"):
        expected = sparse_forms.sparse_collective(name, p, 0, k, ALPHA, BETA, element=element)
        assert seconds(name, p, 10 * k, k, codec=codec) == pytest.approx(expected, **EXACT)
    wire = sparse_forms.gtopk_tree(p, k, ALPHA, BETA, MERGE, element)
    assert seconds("gtopk", p, 10 * k, k, codec=codec) == pytest.approx(wire, **EXACT)


@pytest.mark.parametrize("p", [2, 4, 8, 64])
def test_powers_of_two_are_the_table_s(p: int) -> None:
    m, density = 100e6, 0.001
    k, in_bytes, log = round(density * m / 4), density * m, math.log2(p)  # Table I: k = rho m
    assert sparse_forms.topk_doubling(p, k, ALPHA, BETA) == pytest.approx(log * ALPHA + 2 * (p - 1) * in_bytes * BETA)
    assert sparse_forms.gtopk_tree(p, k, ALPHA, BETA) == pytest.approx(2 * log * ALPHA + 4 * in_bytes * log * BETA)
    assert sparse_forms.gtopk_tree(p, k, ALPHA, BETA, MERGE) == pytest.approx(
        forms.gtopk_rounds(p, k, ALPHA, BETA, MERGE)
    )
    dense = sparse_forms.dense_seconds(p, int(m), ALPHA, BETA)
    assert dense == pytest.approx(2 * (p - 1) * ALPHA + 2 * (p - 1) / p * m * BETA)


@pytest.mark.parametrize("p", [3, 5, 6, 7, 12, 31])
def test_other_numbers_of_ranks_are_within_the_rounds(p: int) -> None:
    for k in (1, 25_000):
        tree = sparse_forms.gtopk_tree(p, k, ALPHA, BETA, MERGE)
        assert 0 < tree < forms.gtopk_rounds(p, k, ALPHA, BETA, MERGE)


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
    built = models.build_model(model, SHAPES[model], classes, 0, "meta")
    found = block_seconds(built, SHAPES[model], batch, device)
    assert sum(found.forward) + sum(found.backward) == pytest.approx(iteration_s)
    assert sum(found.backward) == pytest.approx(BACKWARD_TO_FORWARD * sum(found.forward))
    flops = block_flops(built, SHAPES[model], batch)
    assert [s / sum(found.forward) for s in found.forward] == pytest.approx([f / sum(flops) for f in flops])
    quarter = block_seconds(built, SHAPES[model], batch // 4, device)
    assert sum(quarter.forward) == pytest.approx(sum(found.forward) / 4)


def test_the_published_time_counts_before_the_rate() -> None:
    built = models.build_model("resnet20", (3, 32, 32), 10, 0, "meta")
    rate = {"name": "x", "peak_flops": 1e12, "utilisation": 0.5, "launch_s": 1e-5}
    published = {"iteration_s": 0.1, "batch": 10}
    both, alone = (
        testbeds.testbed_of(probes.TESTBED | {"device": given}).device for given in (rate | published, published)
    )
    assert block_seconds(built, (3, 32, 32), 10, both) == block_seconds(built, (3, 32, 32), 10, alone)


@pytest.mark.parametrize(("device", "says"), [
    ("P102-100", "testbed.device=P102-100"),
    ({"name": "x"}, "peak_flops"),
    ({"iteration_s": 0, "batch": 4}, "testbed.device.iteration_s=0"),
    ({"peak_flops": 1e12, "utilisation": 0.5, "launch_s": -1}, "testbed.device.launch_s=-1"),
    ({"iteraton_s": 1.0, "batch": 4}, "iteraton_s.*iteration_s"),
])  # fmt: skip
def test_a_device_that_cannot_be_used_is_one_clear_line(device, says) -> None:
    with pytest.raises(InputError, match=says):
        testbeds.testbed_of(probes.TESTBED | {"device": device})


# --- trees and recursive doubling on links with fair sharing


SOME = [2, 3, 4, 6, 7, 16, 17]
FAIR_ALPHA, FAIR_BETA, N = 1e-4, 1e-9, 400_000
FAIR = Network(FAIR_ALPHA, FAIR_BETA, fair=True)
FAIR_ROUNDING = 1e-9  # relative


def timed(call, p: int, network: Network, gamma: float = 0.0, n: int = N) -> float:
    return timed_call(call, p, n // 4, network, Costs(True, {"reduce": gamma, "merge": gamma}, {"sync": 0.0}))


def gtopk_of(fabric, vector: torch.Tensor) -> None:
    """Messages of N bytes: an eighth as many elements of a value and an index."""
    gtopk_allreduce(fabric, select_topk(vector, N // 8), Wire(N // 8))


@pytest.mark.parametrize("p", SOME)
def test_a_broadcast_takes_its_rounds_where_links_share(p: int) -> None:
    """ceil(log2 p) (alpha + n beta): all of it for a power of two, its n beta for any p, and never more."""
    found, rounds = timed(collectives.binomial_broadcast, p, FAIR), collective_forms.log2_rounds(p)
    assert found == pytest.approx(collective_forms.broadcast_seconds(p, N, FAIR_ALPHA, FAIR_BETA), rel=FAIR_ROUNDING)
    assert found <= rounds * (FAIR_ALPHA + N * FAIR_BETA) * (1 + FAIR_ROUNDING)
    if p & (p - 1) == 0:
        assert found == pytest.approx(rounds * (FAIR_ALPHA + N * FAIR_BETA), rel=FAIR_ROUNDING)
    no_latency = timed(collectives.binomial_broadcast, p, Network(0.0, FAIR_BETA, fair=True))
    assert no_latency == pytest.approx(rounds * N * FAIR_BETA, rel=FAIR_ROUNDING)


@pytest.mark.parametrize("gamma", [0.0, 3e-10, 3e-9])
@pytest.mark.parametrize("p", [2, 3, 7, 11, 16])
def test_trees_stay_within_their_rounds_where_links_share(p: int, gamma: float) -> None:
    """Exactly the form's for a power of two; for other p two children's messages may come in together."""
    exchange = FAIR_ALPHA + N * (FAIR_BETA + gamma)
    reduce = collective_forms.log2_rounds(p) * exchange
    broadcast = collective_forms.log2_rounds(p) * (FAIR_ALPHA + N * FAIR_BETA)
    found = timed(collectives.binomial_reduce, p, FAIR, gamma), timed(collectives.tree_allreduce, p, FAIR, gamma)
    assert found[0] <= reduce * (1 + FAIR_ROUNDING) and found[1] <= (reduce + broadcast) * (1 + FAIR_ROUNDING)
    if p & (p - 1) == 0:
        assert found == (pytest.approx(reduce, rel=FAIR_ROUNDING), pytest.approx(reduce + broadcast, rel=FAIR_ROUNDING))
    merged = reduce + collective_forms.log2_rounds(p) * N * gamma + broadcast  # a merge reads both messages
    assert timed(gtopk_of, p, FAIR, gamma) <= merged * (1 + FAIR_ROUNDING)


def textbook(p: int, n: int, alpha: float, gamma: float) -> float:
    """Recursive doubling: a first round, one for each doubling, a last one."""
    rounds, message = p.bit_length() - 1, alpha + n * FAIR_BETA
    return rounds * (message + n * gamma) + (0.0 if p == 1 << rounds else 2 * message + n * gamma)


@pytest.mark.parametrize("p", SOME)
@pytest.mark.parametrize("n", [4, N])
def test_recursive_doubling_takes_the_time_of_its_form(p: int, n: int) -> None:
    """The closed form, which is the textbook's sum of rounds, or less if summing takes time; also with fair sharing,
    because no two messages share a link."""
    for alpha, gamma in product((1e-6, 1e-4, 2e-3), (0.0, 3e-10, 3e-9)):
        form = collective_forms.recursive_doubling(p, n, alpha, FAIR_BETA, gamma)
        found = timed(collectives.recursive_doubling_allreduce, p, Network(alpha, FAIR_BETA), gamma, n)
        assert found == pytest.approx(form, rel=FAIR_ROUNDING), (alpha, gamma)
        bound = textbook(p, n, alpha, gamma)
        assert form <= bound * (1 + FAIR_ROUNDING)
        if gamma == 0.0 or p & (p - 1) == 0:
            assert form == pytest.approx(bound, rel=FAIR_ROUNDING)
        if n == N and alpha >= 1e-4:
            shared = Network(alpha, FAIR_BETA, fair=True)
            found = timed(collectives.recursive_doubling_allreduce, p, shared, gamma)
            assert found <= (bound + n * gamma) * (1 + FAIR_ROUNDING)
            if gamma == 0.0:
                assert found == pytest.approx(bound, rel=FAIR_ROUNDING)
