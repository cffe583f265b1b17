"""Probe results in the reports room: reading, grouping, and what claims compute from them."""

from __future__ import annotations

import json
import re

import pytest

from repro.common.errors import InputError
from repro.reports import compute_findings, compute_timing, groups, loading, probes, tables
from repro.reports.pipesgd.experiments import K_SPECTRUM, LOSSY
from tests.reports.data.probes import probe, rates, rings, timing_result, timings
from tests.reports.data.summaries import findings, make, put


def timing(**changes):
    return probe("timing", "timing-model", "p = 4", timing_result(4, 1e-9), **changes)


def test_each_loader_reads_its_own_programs(tmp_path):
    root = put(tmp_path, [make(), timing(), probe("newcomer", "else", "x", {})])
    assert [s["setting"] for s in loading.load("pipesgd", root)] == ["D-Sync"]
    assert sorted(s["program"] for s in probes.load("pipesgd", root)) == ["newcomer", "timing"]


@pytest.mark.parametrize("program, change, said", [
    ("timing", lambda s: s.pop("result"), "missing: result"),
    ("timing", lambda s: s.update(result=[]), "result is not an object"),
    ("timing", lambda s: s["result"].pop("fit"), "missing in result: fit"),
    ("timing", lambda s: s["result"]["fit"].pop("alpha_s"), "missing in result.fit: alpha_s"),
    ("timing", lambda s: s["result"]["settings"][1].pop("terms"), "missing in result.settings[1]: terms"),
    ("timing", lambda s: s["result"]["settings"][0]["observed_s"].pop("min"), "in result.settings[0].observed_s: min"),
    ("timing", lambda s: s["result"].update(settings={}), "result.settings is not a list"),
    ("timing", lambda s: s["result"].update(settings=[3]), "result.settings[0] is not an object"),
    ("timing", lambda s: s.update(kind="guessed"), "kind 'guessed'"),
    ("timing", lambda s: s.update(schema=9), "schema 9, this version reads 1"),
    ("timing", lambda s: s.update(program=3), "program is not a text"),
    ("timing", lambda s: s["hardware"].pop("class"), "missing in hardware: class"),
    ("ring", lambda s: s["result"]["variants"][0].pop("seconds"), "missing in result.variants[0]: seconds"),
    ("ring", lambda s: s["result"]["overheads"][2].pop("codec"), "missing in result.overheads[2]: codec"),
    ("convergence", lambda s: s["result"]["points"][0].pop("bound"), "missing in result.points[0]: bound"),
])  # fmt: skip
def test_a_broken_probe_summary_is_one_line_with_its_path(tmp_path, program, change, said):
    summary = {"timing": timing, "ring": lambda: rings(1)[0], "convergence": lambda: rates(1)[0]}[program]()
    root = put(tmp_path, [summary])
    assert probes.load("pipesgd", root)
    path = next(root.rglob("summary.json"))
    broken = json.loads(path.read_text())
    change(broken)
    path.write_text(json.dumps(broken))
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        probes.load("pipesgd", root)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_testbeds_are_an_axis_machines_and_scales_are_not():
    runs = timings(1)
    group = probes.choose(runs, "gradient-communication")[0]["simulated"]
    assert len({run["testbed"] for run in group.summaries}) == 4 and "and 2 more testbeds" in tables.hardware(group)
    measured = [timing(workers=p) for p in (2, 3)]
    stranger = timing(workers=2, hardware={"class": "gpu-1x-h200"}, seed=5)
    smoke = timing(workers=2, scale="quick", seed=6)
    rough = timing(kind="simulated", testbed="virtual")
    chosen, others = probes.choose([*measured, stranger, smoke, rough, timing(kind="simulated")], "timing-model")
    assert [run["workers"] for run in chosen["measured"].summaries] == [2, 3]
    assert chosen["simulated"].first["testbed"] == "paper/pipesgd" and len(others) == 3
    assert set(tables.others(others)["experiment"]) == {"timing-model"}


def test_of_each_run_the_latest_counts_and_of_a_testbed_its_latest_parameters():
    old, new = timing(key="old"), timing(key="new")
    new["provenance"] = new["provenance"] | {"finished_at": "2027-01-01T00:00:00+00:00"}
    assert [run["key"] for run in probes.groups([new, old])[0].summaries] == ["new"]
    before = timing(kind="simulated", workers=2)
    after = timing(kind="simulated", workers=4, testbed_model={"alpha_s": 1.0})
    after["provenance"] = new["provenance"]
    assert [run["workers"] for run in probes.groups([before, after])[0].summaries] == [4]


# --- what claims compute


def test_best_K_compares_K_2_with_the_fastest_above_it():
    group = groups.choose(findings(2), K_SPECTRUM)[0]["measured"]
    found = compute_findings.best_K(group)
    assert found.values == {0: pytest.approx(1), 1: pytest.approx(1)} and "fastest above 2" in found.note
    few = groups.choose([c for c in findings(1) if c["setting"] in ("K = 1", "K = 2")], K_SPECTRUM)[0]["measured"]
    assert "larger K" in compute_findings.best_K(few).reason
    harm = compute_findings.staleness_harm(group, "K = 8", "K = 2").values
    assert all(-0.02 < value < 0 for value in harm.values())


def test_tolerance_is_what_parameters_lose_beyond_gradients():
    group = groups.choose(findings(2), LOSSY)[0]["simulated"]
    found = compute_findings.tolerance(group)
    assert found.values[0] == pytest.approx(0.02, rel=0.01) and "parameters: 0.0200" in found.note
    assert compute_findings.tolerance(group, codec="Q").values[0] == pytest.approx(0.03, rel=0.01)


def test_sequential_over_pipelined_looks_only_at_communication_bound_runs():
    group = probes.choose(timings(1), "gradient-communication")[0]["simulated"]
    found = compute_timing.sequential_over_pipelined(group)
    assert found.values[0] > 1 and "1 communication-bound" in found.note
    assert "pipelined is faster at MNIST-MLP, p = 4, paper/pipesgd-100g (L = 2): 1 of 1 compute bound" in found.note
    fast = compute_timing.sequential_over_pipelined(group, network="paper/pipesgd-100g")
    assert not fast.values and "paper/pipesgd-100g" in fast.reason


def test_scaling_efficiency_is_taken_at_the_largest_compute_bound_world():
    group = probes.choose(timings(1), "timing-model")[0]["simulated"]
    found = compute_timing.scaling_efficiency(group, "Pipe-SGD + T")
    assert found.values[0] == pytest.approx(1 / 1.01) and "MNIST-MLP, p = 16" in found.note
    assert "AlexNet" not in found.note
    assert "p = 4" in compute_timing.scaling_efficiency(group, "Pipe-SGD").note
    assert "at no world size" in compute_timing.scaling_efficiency(group, "unknown").reason


def test_model_error_is_observed_over_predicted():
    group = probes.choose(timings(2), "timing-model")[0]["measured"]
    found = compute_timing.model_error(group)
    assert found.values == {0: pytest.approx(1.3), 1: pytest.approx(1.4)} and "24 runs" in found.note
    assert "6 runs" in compute_timing.model_error(group, "D-Sync").note
    assert compute_timing.model_error(group, "nothing").reason == "no results for nothing"


def test_terngrad_overhead_is_the_median_benchmark_at_four_workers():
    group = probes.choose(rings(1), "fig3-ring")[0]["measured"]
    found = compute_timing.terngrad_overhead(group, over="uncompressed")
    assert found.values == {0: pytest.approx(2.0)} and "AlexNet, p = 4" in found.note and "p = 3" not in found.note
    assert compute_timing.terngrad_overhead(group, over="compressed").values == {0: pytest.approx(20)}
    assert "not uncompressed" in compute_timing.terngrad_overhead(group, over="both").reason
    hidden = compute_timing.hidden_in_ring(group, variant="pipelined + T")
    assert hidden.values == {0: pytest.approx(2 / 3)}
    assert "no results" in compute_timing.hidden_in_ring(group, variant="x").reason
    for variant in (v for run in group.summaries for v in run["result"]["variants"] if v["name"] == "native + T"):
        variant["overlapped_s"] = variant["work_s"]  # nothing overlaps there: a measure that says so cannot tell
    assert "100 % hidden in the native ring" in compute_timing.hidden_in_ring(group, variant="pipelined + T").reason


def test_convergence_counts_K_2_and_notes_the_others():
    group = probes.choose(rates(2), "convergence")[0]["measured"]
    found = compute_timing.convergence_slope(group, objective="convex")
    assert found.values == {0: pytest.approx(-0.5), 1: pytest.approx(-0.5)}
    assert found.note == "K = 1: -0.510, K = 4: -0.480"
    within = compute_timing.within_bound(group, objective="strongly convex")
    assert within.values == {0: 1.0, 1: 1.0} and "K = 4: within" in within.note
    assert "concave" in compute_timing.convergence_slope(group, objective="concave").reason
