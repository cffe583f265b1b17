"""Top-k and gTop-k S-SGD: equivalences, conservation of gradients, traffic and time, resume, errors, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from repro import strategies
from repro.core.errors import FaultError, InputError
from repro.fabric.costs import Costs
from repro.fabric.sparse import selection
from repro.fabric.virtual import fabric as virtual
from repro.testing import small
from repro.training.buckets import block_sizes
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker
from tests.support.stepping import timed_steps

BOTH = ("topk", "gtopk")
N = sum(p.numel() for p in small.model().parameters())
MOMENTUM = small.SGD.model_copy(update={"momentum": 0.9})


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("workers", [2, 3])
def test_density_1_is_dense_to_rounding(name, workers):
    dense = small.run("dsync", workers=workers, optimizer=MOMENTUM)
    found = small.run(name, {"density": 1.0}, workers=workers, optimizer=MOMENTUM)
    torch.testing.assert_close(found.weights[0], dense.weights[0])


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("options", [{}, {"momentum_correction": True}, {"codec": "quantize8"}])
def test_the_thread_changes_no_bit(name, options):
    beside = small.run(name, options, workers=3, optimizer=MOMENTUM)
    inline = small.run(name, options | {"thread": False}, workers=3, optimizer=MOMENTUM)
    assert beside.digests == inline.digests and beside.losses == inline.losses
    assert beside.bytes_sent == inline.bytes_sent


def serial(name: str, workers: int, density: float, steps: int) -> torch.Tensor:
    """Algorithm 1 (topk) or Algorithm 2 (gtopk), corrected by docs/errata.md, GK-1 to GK-5, with dense vectors."""
    k = round(density * N)
    weights = small.ModelShard(small.model(), small.SGD, torch.device("cpu")).weights.clone()
    residuals = [torch.zeros(N) for _ in range(workers)]

    def mask(vector: torch.Tensor) -> torch.Tensor:
        order = sorted(range(N), key=lambda i: (-abs(vector[i].item()), i))[:k]
        return torch.zeros(N, dtype=torch.bool).index_fill_(0, torch.tensor(order), True)

    for iteration in range(steps):
        sent = []
        for worker, residual in enumerate(residuals):
            residual += small.serial_gradient(weights, iteration, worker, workers)
            chosen = mask(residual)
            sent.append(torch.where(chosen, residual, 0.0))
            residual[chosen] = 0
        total = torch.zeros(N)
        for part in sent:
            total += part
        if name == "gtopk":
            chosen = mask(total)
            for residual, part in zip(residuals, sent):
                residual += torch.where(chosen, 0.0, part)
            total = torch.where(chosen, total, 0.0)
        weights = weights.add(total.div(workers), alpha=-small.SGD.lr)
    return weights


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(("name", "options"), [("topk", {}), ("topk", {"allgather": "ring"}),
                                               ("gtopk", {"aggregation": "allgather"})])  # fmt: skip
def test_it_is_the_algorithm_with_dense_vectors(name, options, workers):
    found = small.run(name, options | {"density": 0.25}, workers=workers, steps=12)
    torch.testing.assert_close(found.weights[0], serial(name, workers, 0.25, 12), rtol=1e-5, atol=1e-7)


@pytest.mark.ranks
@pytest.mark.parametrize("fabric", ["mpi", "torch"])
@pytest.mark.parametrize(("workers", "name", "options"), [
    (3, "topk", {}), (4, "gtopk", {}), (3, "gtopk", {"residual": "exact", "codec": "quantize8", "K": 2}),
    (2, "gtopk", {"thread": False, "momentum_correction": True}),
])  # fmt: skip
def test_real_ranks_end_with_the_bits_of_virtual_ones(fabric, workers, name, options):
    how = {"workers": workers, "optimizer": MOMENTUM}
    real, simulated = small.run(name, options, fabric=fabric, **how), small.run(name, options, **how)
    assert real.digests == simulated.digests and real.bytes_sent == simulated.bytes_sent


# --- conservation


def apply_given(
    name: str, options: dict[str, Any], gradients: list[list[torch.Tensor]], updates: list[int] | None = None
) -> tuple[torch.Tensor, list[dict]]:
    """(sum of all updates' sums over workers (n,), each rank's final state) of a strategy fed with given gradients.

    updates: takes the rank of each update made.
    """
    workers, n = len(gradients[0]), gradients[0][0].numel()

    def rank(fabric: virtual.VirtualFabric) -> tuple:
        part = ModelShard(
            torch.nn.Sequential(torch.nn.Linear(n, 1, bias=False)),
            small.SGD.model_copy(update={"lr": 1.0}),
            torch.device("cpu"),
        )
        part.weights.zero_()
        worker = Worker(workers, fabric, Clock(fabric), part, None, 10, 0)
        applied = torch.zeros(n)

        def given(minibatch: int, before_block: Any = None, gradient_ready: Callable | None = None, **_: Any) -> None:
            part.parameters[0].grad = gradients[minibatch // workers][fabric.rank].view(1, n).clone()
            if gradient_ready:
                gradient_ready(0)

        def update(total: torch.Tensor, *_: Any) -> None:
            applied.add_(total)
            if updates is not None:
                updates.append(fabric.rank)

        worker.gradients, worker.update = given, update
        worker.batches = type("Sized", (), {"size": 1})()
        strategy = strategies.load_strategy(name)(strategies.load_strategy(name).parse(options))
        strategy.setup(worker)
        worker.clock.start()
        for _ in gradients:
            strategy.step()
        strategy.drain()
        state = strategy.state_dict()
        strategy.close()
        return applied, state

    results = virtual.run(workers, rank, small.NETWORK, small.COSTS)
    assert all(torch.equal(applied, results[0][0]) for applied, _ in results)
    return results[0][0], [state for _, state in results]


def whole_numbers(workers: int, kind: str, n: int = 60, iterations: int = 8) -> list[list[torch.Tensor]]:
    draw = torch.Generator().manual_seed(workers)
    found = []
    for t in range(iterations):
        of_all = torch.randint(-50, 51, (workers, n), generator=draw).float()
        if kind == "cancelling":  # neighbours' gradients are each other's opposite
            of_all[1::2] = -of_all[: workers // 2 * 2 : 2]
        if kind == "one index":  # everybody's largest is the same, and the rest all tie
            of_all = torch.ones(workers, n)
            of_all[:, t % n] = 40.0
        if kind == "huge and tiny":
            of_all[0] *= 1000
        found.append(list(of_all))
    return found


@pytest.mark.parametrize("workers", [1, 3, 6])
@pytest.mark.parametrize("kind", ["random", "cancelling", "one index", "huge and tiny"])
@pytest.mark.parametrize(("name", "options"), [
    ("topk", {}), ("gtopk", {"residual": "exact"}), ("gtopk", {"aggregation": "allgather"}),
    ("gtopk", {"residual": "exact", "K": 2}),
])  # fmt: skip
def test_applied_and_residuals_are_the_sum_of_all_gradients(name, options, kind, workers):
    """Exactly, on whole numbers."""
    gradients = whole_numbers(workers, kind)
    applied, states = apply_given(name, {"density": 0.1, **options}, gradients)
    held = sum(state["residual"] for state in states)
    assert torch.equal(applied + held, sum(sum(of_all) for of_all in gradients))
    assert not any(state["totals"]["lost_mass"] for state in states)


@pytest.mark.parametrize("codec", ["none", "truncate16", "quantize8"])
@pytest.mark.parametrize(("name", "options"), [("topk", {}), ("gtopk", {"residual": "exact"})])
def test_random_gradients_are_conserved_to_rounding(name, options, codec):
    draw = torch.Generator().manual_seed(5)
    gradients = [[torch.randn(60, generator=draw) for _ in range(5)] for _ in range(15)]
    applied, states = apply_given(name, {"density": 0.1, "codec": codec, **options}, gradients)
    held = sum(state["residual"] for state in states)
    torch.testing.assert_close(applied + held, sum(sum(of_all) for of_all in gradients), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("workers", [3, 4, 6, 8])
@pytest.mark.parametrize("kind", ["random", "huge and tiny"])
def test_the_printed_rule_loses_what_it_counts(kind, workers):
    """One step: what is missing of the sum is the lost mass, on whole numbers of one sign to the last bit."""
    gradients = [[g.abs() for g in whole_numbers(workers, kind)[0]]]
    applied, states = apply_given("gtopk", {"density": 0.3}, gradients)
    missing = sum(gradients[0]) - applied - sum(state["residual"] for state in states)
    lost = sum(state["totals"]["lost_mass"] for state in states)
    assert missing.min() >= 0 and missing.sum(dtype=torch.float64) == lost
    if workers > 3:
        assert lost > 0


# --- densities, traffic, time


def test_warm_up_densities_are_one_an_epoch():
    """10 iterations an epoch; bytes of two ranks: a message up or down each iteration."""
    options = {"density": 0.1, "warmup_densities": [0.5, 0.25]}
    ks = [round(d * N) for d in (0.5, 0.25, 0.1)]
    for name in BOTH:
        sent = [small.run(name, options, steps=steps).bytes_sent for steps in (10, 20, 25)]
        assert sent[0] == [10 * 8 * ks[0]] * 2
        assert sent[1] == [10 * 8 * (ks[0] + ks[1])] * 2
        assert sent[2] == [8 * (10 * ks[0] + 10 * ks[1] + 5 * ks[2])] * 2


@pytest.mark.parametrize("workers", [3, 4, 6])
def test_bytes_are_counted(workers):
    message, steps = 8 * round(0.25 * N), 5
    gathered = small.run("topk", workers=workers, steps=steps).bytes_sent
    assert gathered == [steps * (workers - 1) * message] * workers
    tree = small.run("gtopk", workers=workers, steps=steps).bytes_sent
    assert sum(tree) == steps * 2 * (workers - 1) * message  # each rank but the root is merged once and told once


def test_pipelining_hides_the_exchange():
    """Computation takes 6 ms; a slow network's exchange of two messages of 13 elements 4 ms."""
    network, small.NETWORK = small.NETWORK, virtual.Network(2e-3, 0.0)
    try:
        plain, pipelined = (small.run("gtopk", {"K": K}, workers=2, steps=40) for K in (1, 2))
    finally:
        small.NETWORK = network
    assert plain.seconds == pytest.approx(40 * 10e-3, rel=0.01)
    assert pipelined.seconds == pytest.approx(40 * 6e-3, rel=0.03)
    assert set(plain.staleness[0]) == {0} and set(pipelined.staleness[0]) == {0, 1}


def exchange_s(name: str, workers: int, **per_byte: float) -> float:
    """Virtual seconds of a step in which only the given kinds of work cost anything, without a thread."""
    costs, still = Costs(True, per_byte), BlockSeconds([0.0], [0.0])
    blocks = [torch.nn.Linear(1000, 1, bias=False)]
    options = {"density": 0.1, "thread": False}
    return timed_steps(name, options, workers, 1, blocks, still, virtual.Network(0.0, 0.0), costs)[0]


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_costs_of_sums_and_of_merges(workers):
    message = 8 * 100
    assert exchange_s("topk", workers, sum=1e-6) == pytest.approx(workers * message * 1e-6)
    assert exchange_s("gtopk", workers, merge=1e-6) == pytest.approx((workers.bit_length() - 1) * 2 * message * 1e-6)
    assert exchange_s("topk", workers, merge=1e-6) == exchange_s("gtopk", workers, sum=1e-6) == 0.0


@pytest.mark.parametrize("name", BOTH)
def test_an_exchange_may_cost_by_the_whole_gradient(name):
    assert exchange_s(name, 4, exchange=1e-6) == pytest.approx(4 * 1000 * 1e-6)


@pytest.mark.parametrize("options", [{"momentum_correction": True}, {"K": 3}, {"codec": "truncate16"},
                                     {"residual": "exact", "selection": "sampled"}, {"aggregation": "allgather"},
                                     {"warmup_densities": [0.5]}])  # fmt: skip
def test_resume_ends_with_the_same_bits(options):
    whole = small.run("gtopk", options, workers=3, optimizer=MOMENTUM)
    resumed = small.run("gtopk", options, workers=3, optimizer=MOMENTUM, stop_and_resume_at=5)
    assert resumed.digests == whole.digests
    assert resumed.states[0]["totals"] == whole.states[0]["totals"]


def test_momentum_correction_with_density_1_is_momentum_cleared_everywhere():
    """With all elements selected the velocity never lasts: plain SGD."""
    corrected = small.run("gtopk", {"density": 1.0, "momentum_correction": True}, workers=1, optimizer=MOMENTUM)
    assert corrected.digests == small.run("dsync", workers=1).digests


# --- bad input


@pytest.mark.parametrize("density", [0, 1.5, True])
def test_a_density_outside_0_to_1_is_refused(density):
    for given in ({"density": density}, {"warmup_densities": [density]}):
        with pytest.raises(InputError, match=r"densit(y|ies.0)=.*: must be (above 0|1 or less|a number)"):
            strategies.load_strategy("gtopk").parse(given)


def test_k_rounding_to_0_is_refused():
    with pytest.raises(InputError, match=f"k = density x {N} parameters rounds to 0; must be above"):
        small.run("gtopk", {"density": 0.001})
    options = strategies.load_strategy("topk").parse({"warmup_densities": [0.001], "density": 0.5})
    with pytest.raises(InputError, match=r"strategy.density=0.001: k"):
        strategies.load_strategy("topk").check_model(options, block_sizes(list(small.model().children())))


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("thread", [True, False])
def test_nan_stops_every_rank_and_nothing_is_applied(name, thread):
    gradients = [[torch.ones(60) * (w + 1) for w in range(3)] for _ in range(3)]
    gradients[2][1][17] = torch.nan
    updates: list[int] = []
    with pytest.raises(FaultError, match=r"gradient of 0.weight on rank 1 at step 3: the step is not applied"):
        apply_given(name, {"density": 0.1, "thread": thread}, gradients, updates)
    assert sorted(updates) == [0, 0, 1, 1, 2, 2]


# --- memory


class Largest(TorchDispatchMode):
    """The largest tensor, in bytes, that is made inside; views of what was there before do not count."""

    def __init__(self, known: list[torch.Tensor]):
        super().__init__()
        self.known = {tensor.untyped_storage().data_ptr() for tensor in known}
        self.nbytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for made in torch.utils._pytree.tree_leaves(out):
            if isinstance(made, torch.Tensor) and made.untyped_storage().data_ptr() not in self.known:
                self.nbytes = max(self.nbytes, made.untyped_storage().nbytes())
        return out


@pytest.mark.parametrize("selection_name", ["exact", "sampled"])
@pytest.mark.parametrize("name", BOTH)
def test_memory_is_a_gradient_a_residual_and_a_multiple_of_k(name, selection_name, monkeypatch):
    """A rank's vectors between steps, and the largest tensor of a step's sparsification."""
    n, k = 4_000_000, 4_000
    monkeypatch.setattr(selection, "CHUNK", 1 << 14)
    monkeypatch.setattr(selection, "SAMPLE", 1 << 14)
    found = {}

    def rank(fabric: virtual.VirtualFabric) -> None:
        part = ModelShard(torch.nn.Sequential(torch.nn.Linear(n, 1, bias=False)), small.SGD, torch.device("cpu"))
        worker = Worker(4, fabric, Clock(fabric), part, None, 10, 0)
        strategy = strategies.load_strategy(name)(
            strategies.load_strategy(name).parse({"selection": selection_name, "thread": False})
        )
        strategy.setup(worker)
        held = [v for v in vars(strategy).values() if isinstance(v, torch.Tensor)]
        buffers = strategy.pending.buffers
        assert sum(v.numel() for v in [*held, *list(buffers)[1:]]) <= 2 * n + len(strategy.finiteness.names)
        gradient = buffers[0].copy_(torch.randn(n, generator=torch.Generator().manual_seed(fabric.rank)))
        with Largest([strategy.residual, gradient]) as mode:
            strategy.accumulate(gradient, 0, n)
            result = strategy.aggregate(strategy.select(0))
            gradient.zero_()
            for one in result:
                one.add_to(gradient)
        found[fabric.rank] = mode.nbytes

    virtual.run(4, rank, small.NETWORK, small.COSTS)
    many = 4 if name == "topk" else 2  # messages held together
    assert max(found.values()) <= max(8 * (1 << 14), many * 8 * k)
