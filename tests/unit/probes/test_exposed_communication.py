"""Exposed communication as a counterfactual: virtual time knows the answer, for computation of any length."""

from __future__ import annotations

import pytest

from repro.fabric.virtual import fabric as virtual
from tests.support import virtual_runs
from tests.support.cli import run as run_cli
from tests.support.cli import summary

ALPHA, BETA = 1e-3, 1e-7
PARTS = ("computation_s", "waiting_s", "latency_s", "exposed_s")
PROBE = ("program=exposed_communication", "+probe.steps=4", "+probe.turns=2", "+probe.warmup=2")


def measure(folder, *overrides, workers=2):
    """(result, bytes of the gradient). Of slow devices the passes take seconds: their computation is padded."""
    folder.mkdir(exist_ok=True)
    arguments = [*virtual_runs.QUICK, f"workers={workers}", "batch=12", "breakdown_steps=0", *PROBE, *overrides]
    config = virtual_runs.configured(virtual_runs.EXPERIMENT, arguments)
    summary = virtual_runs.ended(config, folder / "run", virtual.Network(ALPHA, BETA))
    return summary["result"], 4 * summary["model"]["parameters"]


@pytest.mark.parametrize("workers", [2, 3])
def test_what_a_ring_cannot_hide_is_the_time_of_its_bytes_and_its_hops_are_latency(tmp_path, workers):
    result, nbytes = measure(tmp_path, "strategy=dsync", workers=workers)
    hops = 2 * (workers - 1)
    found = {name: result[name]["median"] for name in PARTS}
    assert found["exposed_s"] == pytest.approx(hops * BETA * nbytes / workers, rel=5e-3)
    assert found["latency_s"] == pytest.approx(hops * (ALPHA + 4 * BETA), rel=5e-3)
    assert found["waiting_s"] == pytest.approx(0, abs=1e-6) and sum(found.values()) == pytest.approx(
        result["whole_s"]["median"]
    )


def test_a_late_worker_is_waited_for_and_is_no_communication(tmp_path):
    late = ("imbalance=random_one", "imbalance.delay_s=0.3")
    result, nbytes = measure(tmp_path, "strategy=dsync", *late, workers=3)
    assert result["waiting_s"]["median"] == pytest.approx(0.3 * 2 / 3)
    assert result["exposed_s"]["median"] == pytest.approx(4 * BETA * nbytes / 3, rel=5e-3)


@pytest.mark.parametrize(("times_the_messages", "exposed"), [(4.0, 0.0), (0.5, 0.5)])
def test_a_pipeline_of_iterations_hides_what_its_computation_covers(tmp_path, times_the_messages, exposed):
    """Computation 4 times and half as long as the messages: all of them are hidden, or half."""
    free, nbytes = measure(tmp_path / "free", "strategy=dsync")
    messages_s = BETA * nbytes
    passes_s = free["phases"]["forward"] + free["phases"]["backward"]
    slower = times_the_messages * messages_s / passes_s
    padded, _ = measure(tmp_path, "strategy=pipe_sgd", f"testbed.device.utilisation={1 / slower}")
    computation_s = padded["computation_s"]["median"]
    assert computation_s == pytest.approx(times_the_messages * messages_s, rel=0.1)
    assert padded["exposed_s"]["median"] == pytest.approx(exposed * messages_s, abs=0.05 * messages_s)


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("strategy", ["wfbp", "topk", "gtopk", "powersgd", "diloco", "parameter_averaging"])
def test_every_data_parallel_strategy_trains_on_with_local_results(tmp_path, strategy, workers):
    result, _ = measure(tmp_path, f"strategy={strategy}", workers=workers)
    parts = {name: result[name]["median"] for name in PARTS}
    assert not result["not_defined"] and sum(parts.values()) == pytest.approx(result["whole_s"]["median"])
    assert min(parts.values()) > -1e-9


@pytest.mark.parametrize(
    ("strategy", "why"),
    [("ps_sync", "servers"), ("pipedream", "what they receive"), ("eager_majority", "what has arrived decides")],
)
def test_where_local_results_are_no_results_it_is_not_defined_and_the_phases_remain(tmp_path, strategy, why):
    result, _ = measure(tmp_path, f"strategy={strategy}")
    assert why in result["not_defined"] and "exposed_s" not in {name for name in result if result[name] is not None}
    assert result["communication"]["total_s"] > 0 and sum(result["phases"].values()) > 0


def test_recording_needs_real_time(tmp_path):
    with pytest.raises(Exception, match="testbed virtual"):
        measure(tmp_path, "strategy=dsync", "+probe.profile_steps=2")


@pytest.mark.ranks
@pytest.mark.parametrize(("launcher", "workers"), [("mpirun", 2), ("torchrun", 3)])
def test_real_ranks_train_with_and_without_messages_in_one_run(tmp_path, launcher, workers):
    """With padded computation, and the profiler's view of the whole iterations beside the counterfactual."""
    here = ("testbed=here", f"testbed.launcher={launcher}", f"workers={workers}", "batch=12", "min_compute_s=0.02")
    done = run_cli(tmp_path, "strategy=pipe_sgd", *here, "grid=null", *PROBE, "+probe.profile_steps=2")
    result = summary(done)["result"]
    assert result["computation_s"]["min"] >= 0.02  # a sleep is never shorter
    parts = [sum(row[name] for name in PARTS) for row in result["rows"]]
    assert parts == pytest.approx([row["whole_s"] for row in result["rows"]])
    assert [row["rank"] for row in result["views"]] == list(range(workers))
    assert all(row["clock"]["communication_s"] > 0 for row in result["views"])
