"""The virtual fabric against the closed forms: every collective, and the strategies' steps."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn

from repro.algorithms.timing import collective_forms, fit, step_forms
from repro.core.errors import InputError
from repro.fabric.codecs import make_codec
from repro.fabric.collectives import dense as collectives
from repro.fabric.collectives.compressed import CompressedAllreduce
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.training.device_times import BlockSeconds
from tests.support import forms
from tests.support.stepping import CODEC_COSTS, timed_call, timed_steps

ALPHA, BETA = 1e-4, 1e-9
NETWORK = virtual.Network(ALPHA, BETA)
ROUNDING = 1e-11  # relative: a few hundred additions of doubles

CALLS = {
    "ring": collectives.ring_allreduce,
    "ring_pipelined": collectives.ring_pipelined,
    "native": lambda fabric, x: fabric.allreduce(x).wait(),
    "recursive_doubling": collectives.recursive_doubling_allreduce,
    "tree": collectives.tree_allreduce,
    "server": collectives.server_allreduce,
    "sharded_server": collectives.sharded_server_allreduce,
    "allgather": collectives.ring_allgather,
    "reduce_scatter": collectives.ring_reduce_scatter,
    "broadcast": collectives.binomial_broadcast,
    "reduce": collectives.binomial_reduce,
}


def simulate(name: str, ranks: int, elements: int, gamma: float, device: str, network=NETWORK) -> float:
    return timed_call(CALLS[name], ranks, elements, network, Costs(True, {"reduce": gamma}, {"sync": 0.0}), device)


@pytest.mark.parametrize("name", sorted(CALLS))
@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_collective_agrees_with_its_form(name: str, ranks: int) -> None:
    for elements, gamma, network in product((1, 1001, 240_000), (0.0, 3e-9), (NETWORK, virtual.Network(0.0, 2e-9))):
        meta = simulate(name, ranks, elements, gamma, "meta", network)
        expected = collective_forms.collective_seconds(name, ranks, 4 * elements, network.alpha, network.beta, gamma)
        if elements < 10_000 and gamma and network is NETWORK:  # arithmetic does not change the time
            assert simulate(name, ranks, elements, gamma, "cpu", network) == meta
        if name == "recursive_doubling" and ranks & (ranks - 1) and network.alpha == gamma == 0.0:
            # at the same moment as another message, the empty one that lets a rank go on may come in behind it
            assert expected * (1 - ROUNDING) <= meta <= (expected + 4 * elements * network.beta) * (1 + ROUNDING)
        elif name == "sharded_server" and elements < ranks:
            assert expected * (1 - ROUNDING) - (ranks - 1) * 4 * gamma <= meta <= expected * (1 + ROUNDING)
        else:
            assert meta == pytest.approx(expected, rel=ROUNDING), (elements, gamma, network)


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
@pytest.mark.parametrize("network", [NETWORK, virtual.Network(ALPHA, BETA, fair=True)], ids=["in order", "fair"])
def test_a_half_duplex_ring_takes_twice_the_messages(ranks: int, network: virtual.Network) -> None:
    costs, form = Costs(True, {"reduce": 3e-9}, {"sync": 0.0}), collective_forms.collective_seconds
    half = timed_call(collectives.ALLREDUCE["ring_half_duplex"], ranks, 120_000, network, costs, "meta")
    assert half == pytest.approx(form("ring_half_duplex", ranks, 480_000, ALPHA, BETA, 3e-9), rel=ROUNDING)
    assert half == pytest.approx(2 * form("ring", ranks, 480_000, ALPHA, BETA, 1.5e-9), rel=ROUNDING)


@pytest.mark.parametrize("p", [1, 2, 4, 8, 64])
def test_trees_over_powers_of_two_are_the_textbook_s(p: int) -> None:
    n, gamma, log = 1000, 2e-10, p.bit_length() - 1
    assert collective_forms.broadcast_seconds(p, n, ALPHA, BETA) == pytest.approx(log * (ALPHA + n * BETA))
    assert collective_forms.reduce_seconds(p, n, ALPHA, BETA, gamma) == pytest.approx(
        log * (ALPHA + n * (BETA + gamma))
    )


@pytest.mark.parametrize(("p", "elements"), [(1, 0), (3, 1), (4, 10), (6, 24), (7, 100)])
def test_largest_block_is_that_of_the_collectives(p: int, elements: int) -> None:
    lengths = [end - start for start, end in collectives.chunk_bounds(elements, p)]
    assert collective_forms.largest_block(p, 4 * elements) == 4 * max(lengths)


@pytest.mark.parametrize("p", [2, 3, 6])
def test_a_sharded_server_whose_messages_share_the_network_card(p: int) -> None:
    """As TCP has it: parts end together, and the whole as late."""
    elements, gamma = 240_000, 1e-10
    shared = virtual.Network(ALPHA, BETA, fair=True)
    found = simulate("sharded_server", p, elements, gamma, "meta", shared)
    form = collective_forms.sharded_server(p, 4 * elements, ALPHA, BETA, gamma)
    assert found == pytest.approx(form, rel=ROUNDING)


@pytest.mark.parametrize("name", ["none", "truncate16", "quantize8"])
@pytest.mark.parametrize("ranks", [1, 3, 6])
def test_ring_with_a_codec(name: str, ranks: int) -> None:
    for elements in (1, 24, 1001):
        n = 4 * elements

        def main(fabric: virtual.VirtualFabric, elements: int = elements) -> float:
            allreduce = CompressedAllreduce(fabric, elements, name, "ring")
            gradient = torch.ones(elements)
            allreduce.decompress(allreduce.reduce(allreduce.compress(gradient)), gradient)
            return fabric.now()

        compress, decompress = collective_forms.codec_device(n, CODEC_COSTS, make_codec(name))
        ring = collective_forms.ring_encoded(ranks, n, ALPHA, BETA, CODEC_COSTS, make_codec(name))
        found = max(virtual.run(ranks, main, NETWORK, CODEC_COSTS))
        assert found == pytest.approx(compress + ring + decompress, rel=ROUNDING)
        if name == "none":
            assert ring == pytest.approx(
                collective_forms.ring_seconds(ranks, n, ALPHA, BETA, 1e-10, 2e-5), rel=ROUNDING
            )


# --- strategies

PARAMETERS = 12 * 12 * 100  # of Linear(1199, 12) with bias: every world size below divides it
BYTES = 4 * PARAMETERS
FORWARD, BACKWARD = 0.3, 0.7  # shares of l_comp


def run_strategy(
    name: str, options: dict, workers: int, T: int, costs: Costs, l_comp: float, network: virtual.Network = NETWORK
):
    model = [nn.Linear(1199, 12, device="meta")]
    return timed_steps(
        name, options, workers, T, model, BlockSeconds([FORWARD * l_comp], [BACKWARD * l_comp]), network, costs
    )


def terms(name: str, workers: int, l_comp: float, costs: Costs = CODEC_COSTS) -> tuple[float, float, float]:
    """(l_up, l_comp, l_comm) with the codec's parts where they belong."""
    compress, decompress = collective_forms.codec_device(BYTES, costs, make_codec(name))
    l_comm = collective_forms.ring_encoded(workers, BYTES, ALPHA, BETA, costs, make_codec(name))
    return costs.seconds("update", BYTES) + decompress, l_comp + compress, l_comm


WORLD = [2, 3, 6]
CODECS = ["none", "truncate16", "quantize8"]


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("workers", [1, *WORLD])
def test_dsync_is_equation_2(name: str, workers: int) -> None:
    l_up, l_comp, l_comm = terms(name, workers, 1e-3)
    if workers == 1 and name == "none":  # there is nobody to wait for
        l_comm = 0.0
    total, after = run_strategy("dsync", {"codec": name}, workers, 5, CODEC_COSTS, 1e-3)
    assert total == pytest.approx(step_forms.sync_total(5, l_up, l_comp, l_comm), rel=ROUNDING)
    assert after[1] - after[0] == pytest.approx(step_forms.sync_total(1, l_up, l_comp, l_comm), rel=ROUNDING)


def check_pipe_sgd(name: str, workers: int, K: int, bound: float, warmup: int, T: int = 8) -> None:
    """`bound`: l_comp as a multiple of l_comm."""
    compute_s = bound * terms(name, workers, 0.0)[2]
    l_up, l_comp, l_comm = terms(name, workers, compute_s)
    options = {"K": K, "codec": name, "warmup_epochs": warmup}  # an epoch is one iteration here
    total, after = run_strategy("pipe_sgd", options, workers, T, CODEC_COSTS, compute_s)
    expected = forms.pipe_segmented_total(T, K, l_up, 0.0, [l_comp], [l_comm], warmup)
    assert total == pytest.approx(expected, rel=ROUNDING)
    if K < 3 or abs(l_comp + l_up - l_comm) > 0.2 * l_comm:  # else the backlog of the fill lasts beyond T
        form = step_forms.pipe_limited if K > 1 else step_forms.sync_total
        assert after[-1] - after[-2] == pytest.approx(form(1, l_up, l_comp, l_comm), rel=1e-9)
    if warmup:
        assert after[warmup - 1] == pytest.approx(step_forms.sync_total(warmup, l_up, l_comp, l_comm), rel=ROUNDING)


@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("bound", [0.05, 0.97, 1.0, 4.0])
@pytest.mark.parametrize("warmup", [0, 3])
def test_pipe_sgd_from_fill_to_drain(K: int, bound: float, warmup: int) -> None:
    check_pipe_sgd("none", 3, K, bound, warmup)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("workers", [2, 6])
@pytest.mark.parametrize(("K", "bound", "warmup"), [(2, 0.5, 0), (2, 3.0, 2), (3, 0.5, 2)])
def test_pipe_sgd_with_codecs(name: str, workers: int, K: int, bound: float, warmup: int) -> None:
    check_pipe_sgd(name, workers, K, bound, warmup)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_short_runs_of_pipe_sgd(K: int) -> None:
    for T, share, update_s_per_byte in product((1, 2, 3, 8), (0.02, 1.0, 3.0), (0.0, 1e-8)):
        costs = Costs(True, {"reduce": 1e-10, "update": update_s_per_byte}, {"sync": 0.0})
        l_up, l_comp, l_comm = terms("none", 2, share * terms("none", 2, 0.0, costs)[2], costs)
        total, _ = run_strategy("pipe_sgd", {"K": K}, 2, T, costs, l_comp)
        expected = forms.pipe_segmented_total(T, K, l_up, 0.0, [l_comp], [l_comm])
        assert total == pytest.approx(expected, rel=ROUNDING), (T, share, l_up)


@pytest.mark.parametrize("workers", [1, 2, 6])
@pytest.mark.parametrize("l_comp", [0.0, 1e-3])
@pytest.mark.parametrize("gamma", [0.0, 9e-10, 5e-9])
def test_ps_sync_on_a_first_come_first_served_network_card(workers: int, l_comp: float, gamma: float) -> None:
    costs = Costs(True, {"reduce": gamma, "update": 3e-11}, {"sync": 0.0})
    l_up, T = costs.seconds("update", BYTES), 6
    total, after = run_strategy("ps_sync", {}, workers, T, costs, l_comp)
    case = (workers, BYTES, ALPHA, BETA, gamma, l_up, l_comp)
    assert total == pytest.approx(forms.server_total(T, *case), rel=ROUNDING)
    assert after[-1] - after[-2] == pytest.approx(step_forms.server_step(*case), rel=1e-9)
    assert step_forms.server_step(*case) <= forms.server_step_incast(*case) * (1 + ROUNDING)
    shared = virtual.Network(ALPHA, BETA, fair=True)
    _, after = run_strategy("ps_sync", {}, workers, T, costs, l_comp, shared)
    assert after[-1] - after[-2] == pytest.approx(step_forms.server_step_shared(*case), rel=1e-9)


# --- the paper's other equations, and fitting


def test_printed_equations() -> None:
    assert step_forms.pipe_limited(10, 1, 2, 4) == 40
    whole = forms.pipe_sequential(1, 0, 0, 0, 4, 4000, ALPHA, BETA, 1e-10, 1e-5)
    cut = step_forms.pipe_segmented(1, 3, 0, 0, 0, 4, 4000, ALPHA, BETA, 1e-10, 1e-5)
    assert cut - whole == pytest.approx(2 * (2 * 3 * ALPHA + 1e-5))  # (L-1) more latencies and synchronisations
    assert step_forms.pipe_segmented(1, 1, 0, 0, 0, 4, 4000, ALPHA, BETA, 1e-10, 1e-5) == pytest.approx(whole)


def test_fit_recovers_alpha_and_beta() -> None:
    ring = collective_forms.ring_seconds
    points = [(n, ring(4, n, 3e-5, 2e-9)) for n in (4000, 40_000, 4_000_000)]
    found = fit.fit_alpha_beta(points, lambda n: (ring(4, n, 1.0, 0.0), ring(4, n, 0.0, 1.0)))
    assert (found.alpha, found.beta) == (pytest.approx(3e-5), pytest.approx(2e-9))
    assert found.relative_error < 1e-9
    plain = fit.fit_alpha_beta([(1000, 1.1), (2000, 2.1), (4000, 4.1)])
    assert (plain.alpha, plain.beta) == (pytest.approx(0.1), pytest.approx(1e-3))
    assert len(plain.residuals) == 3


def test_fit_weighs_a_point_by_its_time() -> None:
    """At the least squares the residuals, each with its weight squared, are orthogonal to what is fitted."""
    points = [(1000, 1.2), (2000, 2.1), (4000, 4.6), (64_000, 60.0)]  # on no line
    found = fit.fit_alpha_beta(points)
    weights = [1 / seconds**2 for _, seconds in points]
    assert found.residuals == pytest.approx([s - found.alpha - found.beta * n for n, s in points])
    assert sum(w * r for w, r in zip(weights, found.residuals)) == pytest.approx(0, abs=1e-9)
    assert sum(w * r * n for w, r, (n, _) in zip(weights, found.residuals, points)) == pytest.approx(0, abs=1e-6)
    assert found.relative_error == max(abs(r) / s for r, (_, s) in zip(found.residuals, points)) > 0


def test_fit_gives_no_negative_alpha() -> None:
    found = fit.fit_alpha_beta([(1000, 1.0), (2000, 2.5), (4000, 5.5)])
    assert found.alpha == 0.0 and found.beta > 0


@pytest.mark.parametrize("points", [[], [(4, 1.0)], [(4, 1.0), (4, 2.0)], [(4, 1.0), (8, 0.0)]])
def test_fit_refuses_too_little(points: list) -> None:
    with pytest.raises(InputError):
        fit.fit_alpha_beta(points)
