"""The probes of gTop-k: messages between two, Table I's collectives, selection; mostly on the virtual fabric."""

from __future__ import annotations

import functools
import statistics
from itertools import product
from typing import Any

import pytest
import torch

from repro.algorithms.timing import sparse_forms
from repro.algorithms.timing.sparse_forms import NAMES
from repro.core.errors import InputError
from repro.experiment import testbeds
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.fabric.virtual import fabric as virtual
from repro.fabric.virtual import modelled
from repro.launch.runner import run_unfinished
from repro.probes import p2p, selection, sparse_collectives
from repro.rank import programs
from tests.support import probes as probes_common
from tests.support.probes import exactly
from tests.support.records import read_summary

ALPHA, BETA = 4.36e-4, 9e-9  # of paper/gtopk


@functools.cache
def composed(experiment: str, testbed: str = "paper/gtopk") -> dict[str, Any]:
    return expand_runs(f"gtopk/{experiment}", [f"testbed={testbed}"], "quick")[0].config.plain()


def configuration(experiment: str, workers: int, testbed: str = "paper/gtopk", **probe: Any) -> dict[str, Any]:
    return probes_common.planned(composed(experiment, testbed), workers, **probe)


def run(config: dict[str, Any], folder: Any) -> dict[str, Any]:
    """The result of a probe's run, all ranks in this process."""
    return probes_common.run(config, folder)["result"]


# --- p2p


@pytest.mark.parametrize("workers", [2, 3])
def test_a_ping_pong_finds_alpha_and_beta(workers, tmp_path):
    result = run(configuration("fig8", workers, sizes=[1024, 65536, 1048576], runs=3), tmp_path)
    assert result["fit"]["alpha_s"] == exactly(ALPHA) and result["fit"]["beta_s_per_byte"] == exactly(BETA)
    assert result["fit"]["relative_error"] < 1e-9
    for point in result["points"]:
        expected = exactly(ALPHA + point["bytes"] * BETA)
        assert point["mean_s"] == expected and point["fitted_s"] == expected
        assert point["runs"] == 3 and point["deviation_s"] == pytest.approx(0, abs=1e-12)


def test_a_fit_reports_its_largest_error():
    points = [{"bytes": n, "mean_s": s} for n, s in ((1000, 2e-3), (2000, 3e-3), (3000, 5e-3))]
    fitted = p2p.fit_points(points)
    errors = [abs(point["fitted_s"] / point["mean_s"] - 1) for point in points]
    assert fitted["relative_error"] == pytest.approx(max(errors)) and fitted["relative_error"] > 0.01


def test_the_deviation_is_that_of_the_runs(monkeypatch):
    times = iter([1.0, 1.0, 1.0, 2.0, 6.0])
    monkeypatch.setattr(p2p, "_one_way", lambda *_: next(times))

    class Known:
        costs = modelled.virtual_costs(testbeds.testbed_of(composed("fig8")["testbed"]))

    [point] = p2p.measure_points(Known(), [4], 3)
    assert point["mean_s"] == 3.0 and point["deviation_s"] == pytest.approx(statistics.stdev([1, 2, 6]))


# --- sparse_collectives


def test_the_collectives_take_table_1_s_time(tmp_path):
    config = configuration("fig9", 8, ranks=[2, 3, 8], bytes=[40_000, 4_000_000])
    result = run(config, tmp_path)
    assert result["network"] == {"alpha_s": ALPHA, "beta_s_per_byte": BETA}
    assert len(result["rows"]) == 4 * 3 * 2
    for row in result["rows"]:
        name, p, n, k = (row[key] for key in ("algorithm", "ranks", "bytes", "k"))
        assert k == round(0.001 * n / 4) and row["density"] == 0.001
        assert row["seconds"]["median"] == exactly(sparse_forms.sparse_collective(name, p, n, k, ALPHA, BETA))
        assert row["closed_form_s"] == exactly(row["seconds"]["median"])
        assert row["wire_bytes"] == (n if name == "dense" else 8 * k)
    by = {(row["algorithm"], row["ranks"], row["bytes"]): row for row in result["rows"]}
    assert by["topk", 8, 4_000_000]["sent_bytes"] == 7 * 8 * 1000
    # a tree sends every rank's elements once towards the root, but the root's own, and as many back
    assert by["gtopk", 8, 4_000_000]["sent_bytes"] == 2 * 7 * 8 * 1000 / 8
    assert by["dense", 8, 4_000_000]["sent_bytes"] == 2 * 7 / 8 * 4_000_000


def test_merging_and_summing_are_beside_the_formulas(tmp_path):
    config = configuration("fig9", 4, ranks=[4], bytes=[4_000_000])
    config["testbed"] = config["testbed"] | {"merge_s_per_byte": 1e-7, "gamma_s_per_byte": 1e-9}
    for row in run(config, tmp_path)["rows"]:
        more = {"dense": 3 * 1_000_000 * 1e-9, "gtopk": 2 * 16 * 1000 * 1e-7}.get(row["algorithm"], 0.0)
        assert row["seconds"]["median"] == exactly(row["closed_form_s"] + more)


def test_a_measured_network_is_fitted_in_the_run(tmp_path, monkeypatch):
    """On a fabric without costs, as a real one is: values that come out are those of the fit."""
    config = configuration("fig9", 2, ranks=[2], bytes=[4000], sizes=[1024, 65536], runs=2)
    measured = {"name": "made up", "kind": "measured", "launcher": "mpirun", "network": "made up"}
    monkeypatch.setattr(sparse_collectives, "pick_device", lambda *_: torch.device("cpu"))
    result = probes_common.run(config | {"testbed": measured}, tmp_path, config["testbed"])["result"]
    assert result["network"]["alpha_s"] == exactly(ALPHA) and len(result["network"]["points"]) == 2
    assert {row["algorithm"] for row in result["rows"]} == {"dense", "topk", "topk_ring", "gtopk"}
    for row in result["rows"]:
        assert row["seconds"]["min"] <= row["seconds"]["median"] <= row["seconds"]["max"]
        assert row["closed_form_s"] == pytest.approx(row["seconds"]["median"])


@pytest.mark.ranks
@pytest.mark.usefixtures("pooled")
def test_collectives_on_real_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    small = ["probe.bytes=[400000]", "probe.ranks=[2,3]", "probe.repeat=1", "probe.runs=2"]
    ranks = ["workers=3", "batch=3", "probe.sizes=[1024,4194304]"]
    one = expand_runs("gtopk/fig9-measured", ["testbed=here", "grid=null", *ranks, *small])
    identify_runs(one)
    [record], fault = run_unfinished(one, track=False)
    assert fault is None and record.kind == "measured" and record.ranks == 3
    result = record.result.found
    assert {(row["algorithm"], row["ranks"]) for row in result["rows"]} == set(product(NAMES, (2, 3)))
    network = result["network"]
    assert network["beta_s_per_byte"] >= 0 and [point["bytes"] for point in network["points"]] == [1024, 4194304]
    for row in result["rows"]:
        times = row["seconds"]
        assert 0 < times["min"] <= times["median"] <= times["max"] and row["closed_form_s"] > 0
        assert row["algorithm"] != "topk" or row["sent_bytes"] == (row["ranks"] - 1) * 8 * 100


# --- selection


def test_selection_finds_what_it_says():
    found = selection.measure_selection(100_000, 0.001, torch.device("cpu"), list(selection.METHODS), 2)
    rows = {row["method"]: row for row in found}
    for method, row in rows.items():
        assert row["k"] == 100 and row["elements"] == 100_000
        assert 0 < row["seconds"]["min"] <= row["seconds"]["median"] <= row["seconds"]["max"]
        assert row["found"] == row["selected"] == 100 or method == "sampled"
    assert 0 < rows["sampled"]["found"] <= rows["sampled"]["selected"] <= 100


def test_a_selection_s_result(tmp_path):
    config = configuration("fig11", 1, "here", model="small", elements=5000, iteration_s=0.5, density=0.01, repeat=1)
    typed = probes_common.check(config | {"device": "cpu"})

    def rank(fabric: virtual.VirtualFabric) -> None:
        programs.run_program(fabric, typed, tmp_path)

    virtual.run(1, rank, virtual.Network(0, 0))
    rows = read_summary(tmp_path)["result"]["rows"]
    assert [row["method"] for row in rows] == ["exact", "sampled", "torch.topk"]
    for row in rows:
        assert row["model"] == "small" and row["device"].startswith("cpu") and row["iteration_s"] == 0.5
        assert row["share"] == pytest.approx(row["seconds"]["median"] / 0.5)


# --- bad input


@pytest.mark.parametrize(("experiment", "testbed", "override", "message"), [
    ("fig8", "paper/gtopk", "workers=1", "program p2p needs 2"),
    ("fig9", "paper/gtopk", "probe.density=1e-9", "selects none of 25000000 .* must be 4e-08 or more"),
    ("fig9", "paper/gtopk", "probe.ranks=[256]", r"probe.ranks=\[256\]: must be 2 to workers=128"),
    ("fig11", "here", "workers=2", "workers=2: program selection runs on one rank"),
    ("fig11", "here", "probe.density=1e-9", "selects none of .*; must be .* or more"),
])  # fmt: skip
def test_bad_parameters_are_refused(experiment, testbed, override, message):
    overrides = [f"testbed={testbed}", override, "strategy=dsync"] + (["batch=2"] if override == "workers=2" else [])
    with pytest.raises(InputError, match=message):
        expand_runs(f"gtopk/{experiment}", overrides)
