"""The probes `timing` and `ring`: in virtual time they agree with closed forms; and real ranks of three probes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repro import models
from repro.core.errors import InputError
from repro.core.phases import PHASES
from repro.core.registry import PROBES
from repro.experiment.testbeds import Rate
from repro.fabric.codecs import make_codec
from repro.fabric.virtual import fabric as virtual
from repro.probes import timing
from repro.probes.shared.steps import summarise_steps
from repro.probes.shared.tracing import TracingFabric
from repro.rank import factory
from repro.training.device_times import block_seconds
from tests.support import forms
from tests.support.cli import repro
from tests.support.probes import PARAMETERS, TESTBED, check, configuration, divisible, exactly, run
from tests.support.records import summaries

# --- timing

STRATEGIES = {
    "PS-Sync": {"name": "ps_sync"},
    "D-Sync": {"name": "dsync"},
    "D-Sync + Q": {"name": "dsync", "codec": "quantize8"},
    "D-Sync pipelined": {"name": "dsync", "algorithm": "ring_pipelined"},
    "D-Sync pipelined, 1 piece": {"name": "dsync", "algorithm": "ring_pipelined", "pieces": 1},
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
        patch.setattr(models, "build_model", divisible)
        factory.modelled_work.cache_clear()
        summary = run(config, folder)
    factory.modelled_work.cache_clear()
    assert summary["program"] == "timing" and summary["model"]["parameters"] == PARAMETERS
    assert summary["ranks"] == workers + 1 and summary["kind"] == "simulated"
    return summary["result"]


@pytest.fixture(scope="module", params=[2, 3, 4])
def timed(request, tmp_path_factory):
    return timing_result(tmp_path_factory.mktemp("timing"), request.param)


def test_predictions_equal_observations_in_virtual_time(timed):
    assert [row["variant"] for row in timed["variants"]] == list(STRATEGIES)
    for row in timed["variants"]:
        assert row["observed_s"]["median"] == exactly(row["predicted_s"]), row["variant"]
        assert sum(row["phases"].values()) == exactly(row["observed_s"]["median"])
        assert row["efficiency_observed"] == exactly(row["efficiency_predicted"])


def test_the_microbenchmark_recovers_the_testbed(timed):
    for name in ("alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "sync_s"):
        assert timed["fit"][name] == exactly(TESTBED[name]), name
    for name in ("truncate16", "quantize8"):
        for way in ("encode", "decode"):
            assert timed["codecs"][name][f"{way}_s_per_byte"] == exactly(TESTBED[f"{way}_s_per_byte"][name])
    assert timed["fit"]["relative_error"] < 1e-9
    modelled = block_seconds(divisible(), (1, 28, 28), 4, Rate(**TESTBED["device"]))
    compute = timed["compute"]
    assert compute["forward_s"] == exactly(sum(modelled.forward))
    assert compute["backward_s"] == exactly(sum(modelled.backward))
    assert compute["update_s"] == exactly(TESTBED["update_s_per_byte"] * 4 * PARAMETERS)
    assert compute["first_segment_backward_s"]["3"] == exactly(modelled.backward[-1])
    assert compute["other_s"] == pytest.approx(0, abs=1e-12)


def test_the_result_has_the_equations_as_printed_too(tmp_path):
    slow = TESTBED["device"] | {"launch_s": 5e-3}
    result = timing_result(tmp_path, 4, slow)
    rows = {row["variant"]: row for row in result["variants"]}
    network = [TESTBED[name] for name in ("alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "sync_s")]
    l_up, l_for, l_back = (result["compute"][f"{name}_s"] for name in ("update", "forward", "backward"))
    assert rows["Pipe-SGD"]["equation"] == "(5)"
    assert rows["Pipe-SGD"]["printed_s"] == exactly(
        forms.pipe_sequential(1, l_up, l_for, l_back, 4, 4 * PARAMETERS, *network)
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
    for row in run(config, tmp_path)["result"]["variants"]:
        assert row["steps"] == 4
        assert row["observed_s"]["median"] == exactly(row["predicted_s"])


@pytest.mark.parametrize(
    "workers, probe, message",
    [
        (1, {}, "workers=1"),
        (2, {"sizes": [4096, 4096]}, r"probe.sizes=\[4096, 4096\]: must be a list of at least 2 different numbers"),
        (2, {"strategies": {"A": {"K": 2}}}, "probe.strategies.A={.*}: must be entries, .* a name among them"),
        (2, {"strategies": {"A": {"name": "dsync", "codec": "zip"}}}, "codec=zip: must be .*truncate16"),
        (2, {"strategies": {"A": {"name": "dsync", "algorithm": "tree"}}}, "'tree' has no equation"),
        (2, {"strategies": {"A": {"name": "pipe_sgd", "warmup_epochs": 1}}}, "warmup_epochs must be 0"),
    ],
)
def test_bad_timing_parameters_are_named(workers, probe, message):
    with pytest.raises(InputError, match=message):
        check(configuration("timing-model", workers, **QUICK | probe))


def test_more_segments_than_layers_are_refused(tmp_path):
    config = configuration("timing-model", 2, **QUICK | {"strategies": {"A": {"name": "pipe_sgd", "segments": 4}}})
    with pytest.raises(InputError, match="segments=4"):
        run(config, tmp_path)


def test_the_median_turn_gives_the_phases():
    def turn(total: float) -> list[dict[str, Any]]:
        phases = dict.fromkeys((*PHASES, "overlapped"), 0.0) | {"forward": total / 2, "overlapped": total / 4}
        return [{"total": total, "phases": phases}, {"total": total, "phases": phases}]

    summary = summarise_steps([turn(10.0), turn(40.0), turn(20.0)], steps=5)
    assert summary["observed_s"] == {"median": 4.0, "min": 2.0, "max": 8.0}
    assert summary["phases"]["forward"] == 2.0 and summary["phases"]["other"] == 2.0
    assert summary["communication"] == {"total_s": 1.0, "exposed_s": 0.0, "overlapped_s": 1.0}


# --- ring


RING_BYTES = 4 * 12 * 4 * 100  # in pieces that are equal for every number of ranks here


@pytest.fixture(scope="module", params=[2, 3, 4])
def ring(request, tmp_path_factory) -> tuple[int, dict[str, Any]]:
    probe = {"bytes": RING_BYTES, "repeat": 1, "overhead_repeat": 1, "benchmarks": {"one": RING_BYTES}}
    config = configuration("fig3-ring", request.param, **probe)
    return request.param, run(config, tmp_path_factory.mktemp("ring"))["result"]


def test_a_rings_intervals_sum_to_the_closed_form(ring):
    workers, result = ring
    block = RING_BYTES // workers
    alpha, beta, gamma, sync = (TESTBED[name] for name in ("alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "sync_s"))
    rows = {row["name"]: row for row in result["variants"]}
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
    assert ternary["compress_s"] == exactly(RING_BYTES * TESTBED["encode_s_per_byte"]["ternary"])


def test_a_codecs_work_and_the_communication_alone(ring):
    (p, result), n = ring, RING_BYTES
    [one] = result["overheads"]
    encode, decode = (TESTBED[f"{way}_s_per_byte"]["ternary"] for way in ("encode", "decode"))
    hops = (p - 1) / p * n * (TESTBED["gamma_s_per_byte"] + 2 * decode + encode)
    assert one["work_s"] == exactly(n * (encode + decode) + hops)
    piece = make_codec("ternary").wire_bytes(n // 4 // p // 4)
    for seconds, wire in (("communication_uncompressed_s", n / p / 4), ("communication_compressed_s", piece)):
        even = forms.ring_pipelined_even(p, TESTBED["alpha_s"], wire * TESTBED["beta_s_per_byte"], 0.0, 4)
        assert one[seconds] == exactly(even + TESTBED["sync_s"])
    assert one["per_compressed"] == exactly(one["work_s"] / one["communication_compressed_s"])


@pytest.mark.parametrize(
    "probe, message",
    [
        ({"variants": {"A": {"codec": "zip"}}}, "unknown codec"),
        ({"overhead_codec": "none"}, "must be a lossy codec"),
    ],
)
def test_bad_ring_parameters_are_named(probe, message):
    with pytest.raises(InputError, match=message):
        check(configuration("fig3-ring", 2, **probe))


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


def test_a_message_that_arrived_before_its_receive_takes_no_time():
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


# --- on real ranks


@pytest.mark.ranks
@pytest.mark.parametrize("experiment", ["timing-model", "fig3-ring", "convergence"])
def test_a_probe_on_real_ranks(tmp_path, experiment):
    chosen = ["testbed=here", "dataset.standin=always", "workers=2", "batch=20", "grid=null"]
    done = repro(tmp_path, "run", f"pipesgd/{experiment}", "--scale", "quick", "--no-mlflow", "--json", *chosen)
    assert done.returncode == 0, done.stderr
    [summary] = summaries(done.stdout)
    assert summary["kind"] == "measured" and summary["fabric"] == "mpi" and summary["workers"] == 2
    assert summary["program"] in PROBES.names() and summary["metrics"] and summary["line"]
    result = summary["result"]
    if summary["program"] == "timing":
        assert summary["ranks"] == 3
        assert all(row["observed_s"]["median"] > 0 and row["predicted_s"] > 0 for row in result["variants"])
        assert result["note"] == timing.SHARED
    if summary["program"] == "ring":
        assert all(row["closed_form_s"] is None and row["trace"] for row in result["variants"])
        assert result["overheads"][0]["per_compressed"] > 0
    if summary["program"] == "convergence":
        assert result["within_bound"]
