"""The probes: in virtual time they predict and record what closed forms say; on a tiny problem the bounds hold."""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from repro import build, data, models, probes, programs
from repro import config as configs
from repro.errors import FaultError, InputError
from repro.fabric import virtual
from repro.fabric.codecs import codec
from repro.probes import _rates, convergence, ring, timing
from repro.probes._objective import Objective, minimise, subset
from repro.probes._observe import summarise
from repro.probes._tracing import TracingFabric
from repro.results import PHASES, read_summary
from repro.timing import closed_forms
from repro.timing.device import block_seconds

TESTBED = {
    "name": "made up",
    "kind": "simulated",
    "launcher": "virtual",
    "arithmetic": "none",
    "alpha_s": 3e-5,
    "beta_s_per_byte": 2e-8,
    "gamma_s_per_byte": 7e-9,
    "sync_s": 2e-5,
    "encode_s_per_byte": {"truncate16": 3e-9, "quantize8": 5e-9, "ternary": 4e-8},
    "decode_s_per_byte": {"truncate16": 2e-9, "quantize8": 4e-9, "ternary": 2e-8},
    "update_s_per_byte": 6e-9,
    "device": {"name": "made up", "peak_flops": 2e8, "utilisation": 0.5, "launch_s": 2e-5},
    "sources": {"all": "made up"},
}
PARAMETERS = 18840 + 900 + 444  # divisible by 12, and each layer's too: every ring has equal blocks


def divisible(*_: Any, **__: Any) -> nn.Sequential:
    with torch.device("meta"):
        layers = [nn.Linear(784, 24), nn.Linear(24, 36), nn.Linear(36, 12)]
    return nn.Sequential(OrderedDict((f"fc{i}", nn.Sequential(nn.Flatten(), fc)) for i, fc in enumerate(layers)))


@functools.cache
def composed(experiment: str) -> dict[str, Any]:
    return configs.compose(f"pipesgd/{experiment}", ["dataset.standin=always"])


def configuration(experiment: str, workers: int, **probe: Any) -> dict[str, Any]:
    """An experiment on the made-up testbed, with digits for data."""
    config = composed(experiment) | {"workers": workers}
    cell = {"setting": "s", "key": "k", "hardware": {"class": "none"}, "provenance": {}, "testbed": TESTBED}
    return config | cell | {"batch": 4 * workers, "probe": config["probe"] | probe}


def run(config: dict[str, Any], folder) -> dict[str, Any]:
    """The summary of a probe's cell, all ranks in this process."""
    programs.check(config)
    testbed = config["testbed"]
    network = virtual.Network(testbed["alpha_s"], testbed["beta_s_per_byte"])
    ranks = programs.ranks(config)
    virtual.run(ranks, lambda fabric: programs.run(fabric, config, folder), network, build.virtual_costs(testbed))
    return read_summary(folder)


def exactly(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-13)


# --- timing

STRATEGIES = {
    "PS-Sync": {"name": "ps_sync"},
    "D-Sync": {"name": "dsync"},
    "D-Sync + Q": {"name": "dsync", "codec": "quantize8"},
    "D-Sync pipelined": {"name": "dsync", "algorithm": "ring_pipelined"},
    "Pipe-SGD": {"name": "pipe_sgd"},
    "Pipe-SGD + T": {"name": "pipe_sgd", "codec": "truncate16"},
    "Pipe-SGD, K = 3": {"name": "pipe_sgd", "K": 3},
    "Pipe-SGD, L = 2": {"name": "pipe_sgd", "segments": 2},
    "Pipe-SGD + T, L = 3": {"name": "pipe_sgd", "segments": 3, "codec": "truncate16"},
    "K = 1": {"name": "pipe_sgd", "K": 1},
    "K = 1, L = 3": {"name": "pipe_sgd", "K": 1, "segments": 3},
}
QUICK = {"turns": 1, "warmup": 6, "steps": 4, "rounds": 1, "sizes": [4800, 48000, 480000], "strategies": STRATEGIES}


def timing_result(folder, workers: int, device: dict[str, Any] | None = None) -> dict[str, Any]:
    config = configuration("timing-model", workers, **QUICK)
    config["testbed"] = config["testbed"] | ({"device": device} if device else {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "build", divisible)
        build.modelled_seconds.cache_clear()
        summary = run(config, folder)
    build.modelled_seconds.cache_clear()
    assert summary["program"] == "timing" and summary["model"]["parameters"] == PARAMETERS
    assert summary["ranks"] == workers + 1 and summary["kind"] == "simulated"
    return summary["result"]


@pytest.fixture(scope="module", params=[2, 3, 4, 6])
def timed(request, tmp_path_factory):
    return timing_result(tmp_path_factory.mktemp("timing"), request.param)


def test_predictions_are_what_is_observed_in_virtual_time(timed):
    assert [row["setting"] for row in timed["settings"]] == list(STRATEGIES)
    for row in timed["settings"]:
        assert row["observed_s"]["median"] == exactly(row["predicted_s"]), row["setting"]
        assert sum(row["phases"].values()) == exactly(row["observed_s"]["median"])
        assert row["efficiency_observed"] == exactly(row["efficiency_predicted"])


def test_the_microbenchmark_recovers_the_testbed(timed):
    for name in ("alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "sync_s"):
        assert timed["fit"][name] == exactly(TESTBED[name]), name
    for name in ("truncate16", "quantize8"):
        for way in ("encode", "decode"):
            assert timed["codecs"][name][f"{way}_s_per_byte"] == exactly(TESTBED[f"{way}_s_per_byte"][name])
    assert timed["fit"]["relative_error"] < 1e-9
    modelled = block_seconds(divisible(), (1, 28, 28), 4, TESTBED["device"])
    compute = timed["compute"]
    assert compute["forward_s"] == exactly(sum(modelled.forward))
    assert compute["backward_s"] == exactly(sum(modelled.backward))
    assert compute["update_s"] == exactly(TESTBED["update_s_per_byte"] * 4 * PARAMETERS)
    assert compute["first_segment_backward_s"]["3"] == exactly(modelled.backward[-1])
    assert compute["other_s"] == pytest.approx(0, abs=1e-12)


def test_equations_as_printed_stand_beside_what_resources_allow(tmp_path):
    slow = TESTBED["device"] | {"launch_s": 5e-3}
    found = timing_result(tmp_path, 4, slow)
    rows = {row["setting"]: row for row in found["settings"]}
    network = [TESTBED[name] for name in ("alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "sync_s")]
    l_up, l_for, l_back = (found["compute"][f"{name}_s"] for name in ("update", "forward", "backward"))
    assert rows["Pipe-SGD"]["equation"] == "(5)"
    assert rows["Pipe-SGD"]["printed_s"] == exactly(
        closed_forms.pipe_sequential(1, l_up, l_for, l_back, 4, 4 * PARAMETERS, *network)
    )
    assert rows["Pipe-SGD"]["efficiency_predicted"] == exactly(1.0)  # compute bound: equation (7)
    assert rows["D-Sync"]["printed_s"] == exactly(rows["D-Sync"]["predicted_s"])
    assert rows["D-Sync + Q"]["printed_s"] < rows["D-Sync + Q"]["predicted_s"]  # no codec work in the paper's equation
    segmented = rows["Pipe-SGD, L = 2"]
    assert segmented["equation"] == "(6)"
    assert segmented["printed_s"] < 0.9 * segmented["predicted_s"]  # its l_b leaves out most of the backward pass
    assert rows["PS-Sync"]["printed_s"] is None and rows["K = 1, L = 3"]["printed_s"] is None


def test_a_measured_turn_with_real_arithmetic(tmp_path):
    few = {name: STRATEGIES[name] for name in ("PS-Sync", "D-Sync", "Pipe-SGD + T")}
    config = configuration("timing-model", 2, **QUICK | {"strategies": few, "turns": 2, "warmup": 2, "steps": 2})
    config["testbed"] = TESTBED | {"arithmetic": "real"}
    for row in run(config, tmp_path)["result"]["settings"]:
        assert row["steps"] == 4
        assert row["observed_s"]["median"] == exactly(row["predicted_s"])


@pytest.mark.parametrize(
    "workers, probe, message",
    [
        (1, {}, "workers=1"),
        (2, {"turns": 0}, "probe.turns=0: must be a whole number, 1 or more"),
        (2, {"sizes": [4096, 4096]}, "at least 2 numbers of bytes"),
        (2, {"strategies": {}}, "at least one setting"),
        (2, {"strategies": {"A": {"K": 2}}}, "mapping setting -> "),
        (2, {"strategies": {"A": {"name": "dsync", "codec": "zip"}}}, "unknown codec 'zip'"),
        (2, {"strategies": {"A": {"name": "dsync", "algorithm": "tree"}}}, "'tree' has no equation"),
        (2, {"strategies": {"A": {"name": "pipe_sgd", "warmup_epochs": 1}}}, "warmup_epochs must be 0"),
    ],
)
def test_bad_timing_parameters_are_named(workers, probe, message):
    with pytest.raises(InputError, match=message):
        programs.check(configuration("timing-model", workers, **QUICK | probe))


def test_more_segments_than_layers_are_refused(tmp_path):
    config = configuration("timing-model", 2, **QUICK | {"strategies": {"A": {"name": "pipe_sgd", "segments": 4}}})
    with pytest.raises(InputError, match="segments=4"):
        run(config, tmp_path)


def test_the_median_turn_gives_the_phases():
    def turn(total: float) -> list[dict[str, Any]]:
        phases = dict.fromkeys((*PHASES, "overlapped"), 0.0) | {"forward": total / 2, "overlapped": total / 4}
        return [{"total": total, "phases": phases}, {"total": total, "phases": phases}]

    found = summarise([turn(10.0), turn(40.0), turn(20.0)], steps=5)
    assert found["observed_s"] == {"median": 4.0, "min": 2.0, "max": 8.0}
    assert found["phases"]["forward"] == 2.0 and found["phases"]["other"] == 2.0
    assert found["communication"] == {"total_s": 1.0, "exposed_s": 0.0, "overlapped_s": 1.0}


# --- ring


def ring_result(tmp_path, workers: int, **probe: Any) -> dict[str, Any]:
    nbytes = 4 * 12 * 4 * 100  # in pieces that are equal for every number of ranks here
    given = {"bytes": nbytes, "repeat": 1, "overhead_repeat": 1, "benchmarks": {"one": nbytes}} | probe
    return run(configuration("fig3-ring", workers, **given), tmp_path)["result"] | {"bytes": nbytes}


@pytest.mark.parametrize("workers", [2, 3, 4, 6])
def test_a_rings_intervals_sum_to_the_closed_form(tmp_path, workers):
    found = ring_result(tmp_path, workers)
    block = found["bytes"] // workers
    alpha, beta, gamma, sync = (TESTBED[name] for name in ("alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "sync_s"))
    rows = {row["name"]: row for row in found["variants"]}
    for row in rows.values():
        assert row["seconds"]["median"] == exactly(row["closed_form_s"]), row["name"]
    native = rows["native"]
    assert native["communication_s"] == exactly(2 * (workers - 1) * (alpha + block * beta))
    assert native["work_s"] == exactly((workers - 1) * block * gamma)
    assert native["overlapped_s"] == pytest.approx(0, abs=1e-15)
    assert native["communication_s"] + native["work_s"] + sync == exactly(native["closed_form_s"])
    messages = 2 * (workers - 1) * workers
    assert len([i for i in native["trace"] if i["name"] == "communicate"]) == messages
    assert len([i for i in native["trace"] if i["name"] == "reduce"]) == messages / 2
    assert native["moving_alone_s"] == exactly(native["communication_s"] + sync)
    pipelined = rows["pipelined"]
    assert len([i for i in pipelined["trace"] if i["name"] == "communicate"]) == 4 * messages
    assert pipelined["work_s"] == exactly(native["work_s"])
    assert pipelined["overlapped_s"] > 0.5 * pipelined["work_s"]
    ternary = rows["pipelined + TernGrad"]
    assert {i["name"] for i in ternary["trace"]} == {"communicate", "decompress+sum+compress"}
    assert ternary["compress_s"] == exactly(found["bytes"] * TESTBED["encode_s_per_byte"]["ternary"])


@pytest.mark.parametrize("workers", [2, 4])
def test_a_codecs_work_and_the_communication_alone(tmp_path, workers):
    found = ring_result(tmp_path, workers)
    [one] = found["overheads"]
    n, p = found["bytes"], workers
    encode, decode = (TESTBED[f"{way}_s_per_byte"]["ternary"] for way in ("encode", "decode"))
    hops = (p - 1) / p * n * (TESTBED["gamma_s_per_byte"] + 2 * decode + encode)
    assert one["work_s"] == exactly(n * (encode + decode) + hops)
    piece = codec("ternary").wire_bytes(n // 4 // p // 4)
    for seconds, wire in (("communication_uncompressed_s", n / p / 4), ("communication_compressed_s", piece)):
        even = closed_forms.ring_pipelined_even(p, TESTBED["alpha_s"], wire * TESTBED["beta_s_per_byte"], 0.0, 4)
        assert one[seconds] == exactly(even + TESTBED["sync_s"])
    assert one["per_compressed"] == exactly(one["work_s"] / one["communication_compressed_s"])


@pytest.mark.parametrize(
    "probe, message",
    [
        ({"variants": {"A": {"algorithm": "tree"}}}, "no hops to look at"),
        ({"variants": {"A": {"codec": "zip"}}}, "unknown codec"),
        ({"variants": {}}, "probe.variants"),
        ({"overhead_codec": "none"}, "must be a lossy codec"),
        ({"pieces": 0}, "probe.pieces=0"),
    ],
)
def test_bad_ring_parameters_are_named(probe, message):
    with pytest.raises(InputError, match=message):
        ring.check(configuration("fig3-ring", 2, **probe))


@pytest.mark.parametrize("algorithm", ["ring", "ring_pipelined", "recursive_doubling"])
def test_tracing_changes_no_result(algorithm):
    def summed(traced: bool):
        def main(fabric):
            vector = torch.randn(29, generator=torch.Generator().manual_seed(fabric.rank))
            used = TracingFabric(fabric, {"host": "reduce"}) if traced else fabric
            used.allreduce(vector, algorithm=algorithm)
            return vector, fabric.now(), used.take() if traced else []

        return virtual.run(3, main, virtual.Network(1e-4, 1e-8))

    for (plain, ended, _), (vector, end, intervals) in zip(summed(False), summed(True)):
        assert torch.equal(plain, vector) and ended == end
        assert intervals and all(0 <= i.start < i.end <= end for i in intervals)


def test_a_message_that_was_there_before_it_was_asked_for_took_no_time():
    def main(fabric):
        traced = TracingFabric(fabric, {})
        if fabric.rank == 0:
            fabric.send(torch.ones(100), 1)
            fabric.send(torch.ones(100), 1)
            return []
        first, second = torch.empty(100), torch.empty(100)
        work = traced.irecv(first, 0)
        fabric.sleep(1.0)
        work.wait()
        traced.recv(second, 0)
        assert first.sum() == second.sum() == 100
        return traced.take()

    [interval] = virtual.run(2, main, virtual.Network(1e-3, 1e-5))[1]
    assert interval.start == 0 and interval.end == exactly(1e-3 + 400e-5)


# --- convergence

TINY = {"samples": 200, "T": 80, "pilot": 30, "regularisation": 0.01, "margin": 1.25}


def convergence_result(tmp_path, objective: str, K: int, **probe: Any) -> dict[str, Any]:
    config = configuration("convergence", 2, **TINY | {"objective": objective} | probe)
    config["testbed"] = TESTBED | {"arithmetic": "real"}
    config["strategy"] = config["strategy"] | {"K": K}
    return run(config | {"batch": 20}, tmp_path)["result"]


@pytest.mark.parametrize("K", [1, 2, 4])
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
    dataset = subset(data.load("mnist", standin="always"), 200, 4)
    mu = 0.01

    def main(fabric):
        model = models.build("softmax", dataset.input_shape, dataset.classes, 0)
        return minimise(fabric, Objective(model, dataset.train, mu) if fabric.rank == 0 else None)

    first, second = virtual.run(2, main, virtual.Network(0.0, 0.0))
    assert torch.equal(first.weights, second.weights)
    x = dataset.train.x.double().flatten(1)
    weights = first.weights.clone().requires_grad_()
    logits = x @ weights[: 10 * x.shape[1]].view(10, -1).T + weights[10 * x.shape[1] :]
    value = functional.cross_entropy(logits, dataset.train.y) + mu / 2 * weights.square().sum()
    value.backward()
    assert value.item() == exactly(first.value)
    assert weights.grad.norm().item() < math.sqrt(2 * mu * 1e-9) * 1.01


def test_the_weights_recorded_are_those_of_delayed_steps(tmp_path, monkeypatch):
    """K = 2: the first update comes after the second gradient, and moves by eta_1 g_1."""
    seen = {}
    original = convergence.descend

    def spy(fabric, *arguments):
        record = original(fabric, *arguments)
        if fabric.rank == 0:
            seen["rate"], seen["record"] = arguments[2], record
        return record

    monkeypatch.setattr(convergence, "descend", spy)
    convergence_result(tmp_path, "strongly convex", 2, regularisation=0.5, T=20)
    snapshots, lr = seen["record"].snapshots, seen["rate"]["lr"]
    dataset = subset(data.load("mnist", standin="always"), 200, 2)
    weights = snapshots[1].clone().requires_grad_()
    x = dataset.train.x.flatten(1)
    logits = x @ weights[: 10 * x.shape[1]].view(10, -1).T + weights[10 * x.shape[1] :]
    (functional.cross_entropy(logits, dataset.train.y) + 0.25 * weights.square().sum()).backward()
    assert torch.equal(snapshots[1], snapshots[2])
    torch.testing.assert_close(snapshots[3], snapshots[1] - lr * weights.grad, rtol=1e-4, atol=1e-6)


def test_a_minimum_that_is_not_reached_is_a_fault(monkeypatch):
    monkeypatch.setattr("repro.probes._objective.ROUNDS", 1)
    monkeypatch.setattr("repro.probes._objective.GAP", 0.0)
    dataset = subset(data.load("mnist", standin="always"), 40, 1)

    def main(fabric):
        model = models.build("softmax", dataset.input_shape, dataset.classes, 0)
        return minimise(fabric, Objective(model, dataset.train, 0.01))

    with pytest.raises(FaultError, match="the minimum was not found"):
        virtual.run(1, main, virtual.Network(0.0, 0.0))


def test_rates():
    assert _rates.convex_bound(2.0, 3.0, 4, 16) == 24.0
    assert _rates.strongly_convex_bound(2.0, 3.0, 1, 0.5, 1) == 9.0  # tau = 0: L^2 / (2 mu)
    assert _rates.strongly_convex_bound(2.0, 3.0, 2, 0.5, 1) == 2.0 + 27.0
    assert _rates.inverse_sqrt(8.0, 2.0, 4) == {"lr": 1.0, "schedule": "inverse_sqrt"}
    assert _rates.slope([(t, 3 * t**-0.5) for t in (1, 10, 100)]) == exactly(-0.5)
    assert _rates.slope([(1, 1.0), (2, -1.0)]) is None
    for T in (10, 1000):
        points = _rates.points(T)
        assert points[0] == 1 and points[-1] == T and points == sorted(set(points))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"objective": "concave"}, "unknown probe.objective 'concave'; valid: convex, strongly convex"),
        ({"T": 5}, "probe.T=5: must be a whole number, 10 or more"),
        ({"regularisation": 0}, "probe.regularisation=0: must be a number, above 0"),
        ({"margin": 0.5}, "probe.margin=0.5"),
    ],
)
def test_bad_convergence_parameters_are_named(change, message):
    config = configuration("convergence", 2, **TINY | {"objective": "convex"} | change)
    config["testbed"] = TESTBED | {"arithmetic": "real"}
    with pytest.raises(InputError, match=message):
        convergence.check(config)
    config["probe"] |= TINY | {"objective": "convex"}
    with pytest.raises(InputError, match="arithmetic=real"):
        convergence.check(config | {"testbed": TESTBED})
    with pytest.raises(InputError, match="strategy=dsync"):
        convergence.check(config | {"strategy": {"name": "dsync"}})


# --- on real ranks


@pytest.mark.ranks
@pytest.mark.parametrize("experiment", ["timing-model", "fig3-ring", "convergence"])
def test_a_probe_on_real_ranks(tmp_path, experiment):
    environment = os.environ | {"REPRO_RESULTS": str(tmp_path), "REPRO_REPORTS": str(tmp_path / "reports")}
    command = [sys.executable, "-m", "repro.cli", "run", f"pipesgd/{experiment}", "--scale", "smoke", "--no-mlflow"]
    chosen = ["testbed=here", "dataset.standin=always", "workers=2", "batch=20", "settings=null"]
    done = subprocess.run([*command, "--json", *chosen], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    [summary] = json.loads(done.stdout)
    assert summary["kind"] == "measured" and summary["fabric"] == "mpi" and summary["workers"] == 2
    assert summary["program"] in probes.names() and summary["metrics"] and summary["line"]
    result = summary["result"]
    if summary["program"] == "timing":
        assert summary["ranks"] == 3
        assert all(row["observed_s"]["median"] > 0 and row["predicted_s"] > 0 for row in result["settings"])
        assert result["note"] == timing.SHARED
    if summary["program"] == "ring":
        assert all(row["closed_form_s"] is None and row["trace"] for row in result["variants"])
        assert result["overheads"][0]["per_compressed"] > 0
    if summary["program"] == "convergence":
        assert result["within_bound"]
