"""The probes of convergence bounds and of eager-SGD's Figure 8."""

from __future__ import annotations

import functools
import math
from itertools import product
from typing import Any

import pytest
import torch
from torch.nn import functional

from repro import data, models
from repro.core.errors import FaultError, InputError
from repro.experiment.expand import expand_runs
from repro.experiment.optimizer import Optimizer
from repro.fabric.virtual import fabric as virtual
from repro.probes import convergence, partial_collectives
from repro.probes.shared.objective import Objective, find_minimum, training_subset
from tests.support.probes import TESTBED, check, configuration, exactly, planned, run

# --- the convergence probe on a tiny problem


TINY = {"samples": 200, "T": 80, "pilot": 30, "regularisation": 0.01, "margin": 1.25}


def convergence_result(tmp_path, objective: str, K: int, **probe: Any) -> dict[str, Any]:
    config = configuration("convergence", 2, **TINY | {"objective": objective} | probe)
    strategy, testbed = config["strategy"] | {"K": K}, TESTBED | {"arithmetic": "real"}
    return run(config | {"batch": 20, "strategy": strategy, "testbed": testbed}, tmp_path)["result"]


def objective_at(weights, dataset, mu: float):
    """The objective of softmax regression at weights (n,), written out."""
    x = dataset.train.x.to(weights).flatten(1)
    logits = x @ weights[: 10 * x.shape[1]].view(10, -1).T + weights[10 * x.shape[1] :]
    return functional.cross_entropy(logits, dataset.train.y) + mu / 2 * weights.square().sum()


@pytest.mark.parametrize("K", [1, 4])
def test_average_regret_on_a_convex_objective_is_below_the_bound(tmp_path, K):
    found = convergence_result(tmp_path, "convex", K)
    assert found["within_bound"] and found["constants_hold"]
    last = found["points"][-1]
    assert last["t"] == 80 and last["bound"] == exactly(8 * found["F"] * found["L"] * math.sqrt(K / 80))
    assert last["regret"] < 0.5 * found["points"][0]["regret"]
    assert found["slope"] < -0.3
    assert found["optimum_gap"] <= 1e-9


@pytest.mark.parametrize("K", [1, 2])
def test_gradient_descent_on_a_strongly_convex_objective(tmp_path, K):
    found = convergence_result(tmp_path, "strongly convex", K, regularisation=0.5, T=150)
    assert found["within_bound"] and found["batch"] == 200
    assert found["slope"] < -0.85
    assert all(point["regret"] > -1e-7 for point in found["points"])
    assert found["constant"] > 0


def test_the_minimiser_is_stationary():
    dataset = training_subset(data.load_dataset("mnist", standin="always"), 200, 4)
    mu = 0.01

    def main(fabric):
        model = models.build_model("softmax", dataset.input_shape, dataset.classes, 0)
        return find_minimum(fabric, Objective(model, dataset.train, mu) if fabric.rank == 0 else None)

    first, second = virtual.run(2, main, virtual.Network(0.0, 0.0))
    assert torch.equal(first.weights, second.weights)
    weights = first.weights.clone().requires_grad_()
    value = objective_at(weights, dataset, mu)
    value.backward()
    assert value.item() == exactly(first.value)
    assert weights.grad.norm().item() < math.sqrt(2 * mu * 1e-9) * 1.01


def test_the_weights_recorded_are_those_of_delayed_steps(tmp_path, monkeypatch):
    """K = 2: the first update comes after the second gradient, and moves by eta_1 g_1."""
    seen = {}
    original = convergence.run_descent

    def spy(fabric, *arguments):
        record = original(fabric, *arguments)
        if fabric.rank == 0:
            seen["rate"], seen["record"] = arguments[2], record
        return record

    monkeypatch.setattr(convergence, "run_descent", spy)
    convergence_result(tmp_path, "strongly convex", 2, regularisation=0.5, T=20)
    snapshots, lr = seen["record"].snapshots, seen["rate"].lr
    dataset = training_subset(data.load_dataset("mnist", standin="always"), 200, 2)
    weights = snapshots[1].clone().requires_grad_()
    objective_at(weights, dataset, 0.5).backward()
    assert torch.equal(snapshots[1], snapshots[2])
    torch.testing.assert_close(snapshots[3], snapshots[1] - lr * weights.grad, rtol=1e-4, atol=1e-6)


def test_a_minimum_that_is_not_reached_is_a_fault(monkeypatch):
    monkeypatch.setattr("repro.probes.shared.objective.ROUNDS", 1)
    monkeypatch.setattr("repro.probes.shared.objective.GAP", 0.0)
    dataset = training_subset(data.load_dataset("mnist", standin="always"), 40, 1)

    def main(fabric):
        model = models.build_model("softmax", dataset.input_shape, dataset.classes, 0)
        return find_minimum(fabric, Objective(model, dataset.train, 0.01))

    with pytest.raises(FaultError, match="the minimum was not found"):
        virtual.run(1, main, virtual.Network(0.0, 0.0))


def test_rates():
    assert convergence.convex_bound(2.0, 3.0, 4, 16) == 24.0
    assert convergence.strongly_convex_bound(2.0, 3.0, 1, 0.5, 1) == 9.0  # tau = 0: L^2 / (2 mu)
    assert convergence.strongly_convex_bound(2.0, 3.0, 2, 0.5, 1) == 2.0 + 27.0
    assert convergence.inverse_sqrt(8.0, 2.0, 4) == Optimizer(lr=1.0, schedule="inverse_sqrt")
    assert convergence.log_slope([(t, 3 * t**-0.5) for t in (1, 10, 100)]) == exactly(-0.5)
    assert convergence.log_slope([(1, 1.0), (2, -1.0)]) is None
    for T in (10, 1000):
        points = convergence.logarithmic_steps(T)
        assert points[0] == 1 and points[-1] == T and points == sorted(set(points))


@pytest.mark.parametrize(
    ("entries", "probe", "message"),
    [
        ({"testbed": TESTBED}, {}, "arithmetic=real"),
        ({"strategy": {"name": "dsync"}}, {}, "strategy=dsync"),
        ({}, {"samples": 1}, "probe.samples=1: must be 2 or more, one a worker"),
    ],
)
def test_what_the_bounds_do_not_cover_is_refused(entries, probe, message):
    config = configuration("convergence", 2, **TINY | {"objective": "convex"} | probe)
    with pytest.raises(InputError, match=message):
        check(config | {"testbed": TESTBED | {"arithmetic": "real"}} | entries)


# --- the probe `partial_collectives`: the microbenchmark of eager-SGD's Figure 8


STEP_S = 0.001


@functools.cache
def composed() -> dict[str, Any]:
    return expand_runs("eagersgd/fig9", [], "quick")[0].config.plain()


def of_partial(workers: int, **probe: Any) -> dict[str, Any]:
    options = {"collectives": ["allreduce", "solo"], "ranks": [workers], "bytes": [64, 65536], "calls": 40}
    return planned(composed(), workers, **options | {"step_s": STEP_S} | probe)


@pytest.mark.parametrize("workers", [3, 8])
def test_latencies_are_the_waits_that_follow_from_the_skew(workers, tmp_path):
    """Skew is far above a round's own time: each mean latency is its closed form, majority's in expectation."""
    names = ["allreduce", "recursive_doubling", "solo", "majority", "quorum 2", f"quorum {workers}"]
    summary = run(of_partial(workers, collectives=names), tmp_path)
    rows = summary["result"]["rows"]
    assert [row["collective"] for row in rows] == names * 2
    for row in rows:
        assert row["skew_s"] == pytest.approx((workers - 1) * STEP_S)
        slack = 0.1 * STEP_S
        if row["collective"] == "majority":
            deviation = workers * STEP_S / row["calls"] ** 0.5
            slack += 3 * deviation
            assert abs(row["nap"] - row["nap_form"]) < 3 * workers / row["calls"] ** 0.5
        else:
            assert row["nap"] == row["nap_form"]
        assert row["latency_s"]["mean"] == pytest.approx(row["waiting_form_s"], abs=slack)
    ratios = {row["collective"]: row["mean"] for row in summary["result"]["ratios"]}
    assert ratios["solo"] > ratios["quorum 2"] > ratios["majority"] > 1
    assert summary["metrics"][f"nap/solo/{workers}/64"] == 1
    assert f"{workers} ranks" in summary["line"] and "majority" in summary["line"]


def test_some_of_the_ranks(tmp_path):
    """The other ranks wait."""
    rows = run(of_partial(4, ranks=[2, 3, 4], calls=2), tmp_path)["result"]["rows"]
    assert {(row["ranks"], row["collective"]) for row in rows} == {*product((2, 3, 4), ("allreduce", "solo"))}


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ({"collectives": ["both"]}, "collective 'both': must be allreduce, recursive_doubling, solo, majority or"),
        ({"collectives": ["quorum 4"]}, "strategy.quorum=4: must be a whole number from 1 .solo. to workers=3"),
        ({"ranks": [2, 4]}, r"probe.ranks=\[4\]: must be 2 to workers=3"),
        ({"step_s": 90}, "probe.step_s=90: the last of 3 ranks would come 180 s late, after timeout_s=120"),
    ],
)
def test_bad_parameters(probe, words):
    with pytest.raises(InputError, match=words):
        check(of_partial(3, **probe))


def test_what_a_library_takes_in_a_call_is_part_of_the_latency_of_partial_collectives_alone(tmp_path):
    call_s = 4 * STEP_S
    plain, charged = (
        {
            row["collective"]: row["latency_s"]["mean"]
            for row in run(of_partial(4, bytes=[64], **probe), folder)["result"]["rows"]
        }
        for folder, probe in ((tmp_path / "plain", {}), (tmp_path / "charged", {"call_s": call_s}))
    )
    assert charged["solo"] == pytest.approx(plain["solo"] + call_s)
    assert charged["allreduce"] == pytest.approx(plain["allreduce"])


def test_a_line_without_partial_collectives():
    assert partial_collectives.summary_line(partial_collectives.latency_ratios([])) == ""
    assert partial_collectives.parse_initiator("quorum 3", 4) == ("quorum", 3)
    assert partial_collectives.parse_initiator("quorum 3 by native", 4) == ("quorum", 3)
