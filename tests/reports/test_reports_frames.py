"""The data behind figures 1, 2, 3 and of the timing model and the findings, before anything is drawn."""

from __future__ import annotations

import math

import pytest

from repro.reporting.stats import DASH, TIMES
from repro.reports import frames_findings, frames_ring, frames_timing, groups, probes
from repro.reports import frames_traces as traces
from repro.reports.pipesgd.experiments import FIG1, FIG2, K_SPECTRUM, LOSSY
from tests.reports.data.probes import rates, rings, timings
from tests.reports.data.summaries import findings, pictures


@pytest.fixture(scope="module")
def chosen():
    """experiment -> simulated group"""
    runs = [*pictures(), *findings(2)]
    found = {e.name: groups.choose(runs, e)[0]["simulated"] for e in (FIG1, FIG2, K_SPECTRUM, LOSSY)}
    measured = [*timings(2), *rings(1)]
    for name in ("timing-model", "gradient-communication", "fig3-ring"):
        found[name] = probes.choose(measured, name)[0]["simulated"]
    return found | {"convergence": probes.choose(rates(2), "convergence")[0]["measured"]}


def test_figure_1_has_three_panels_of_three_kinds_of_boxes(chosen):
    found = traces.figure1(chosen["fig1"])
    assert list(found["panel"].unique()) == ["a", "b", "c"]
    assert set(found["name"]) == {"update", "compute", "communicate"}
    server = found[found["who"] == "parameter server"]
    assert set(server["panel"]) == {"a"} and set(server["name"]) == {"update"} and len(server) == 12
    synchronous = found[(found["panel"] == "b") & (found["rank"] == 0)]
    assert list(synchronous["name"])[:3] == ["compute", "communicate", "update"]  # forward and backward are one box
    pipelined = found[(found["panel"] == "c") & (found["rank"] == 0)]
    assert set(pipelined[pipelined["line"] == "main"]["name"]) == {"compute", "update"}  # blocked is no communication
    assert set(pipelined[pipelined["line"] != "main"]["name"]) == {"communicate"}
    for _, row in found.groupby(["panel", "rank", "line"]):
        assert (row["start_ms"].iloc[1:].to_numpy() >= row["end_ms"].iloc[:-1].to_numpy() - 1e-9).all()


def test_figure_2_marks_idle_stretches_numbers_allreduces_and_sends_back(chosen):
    found = traces.figure2(chosen["fig2"], chosen["fig3-ring"])
    worker = found[(found["panel"] == "a") & (found["line"] == "main")]
    assert set(found[found["panel"] == "a"]["rank"]) == {0}
    assert worker["name"].value_counts()["idle"] == 3  # a blocked stretch an iteration
    busy = worker["end_ms"] - worker["start_ms"]
    assert busy.sum() == pytest.approx(worker["end_ms"].max() - worker["start_ms"].min())  # nothing is left over
    parts = found[(found["panel"] == "b") & (found["setting"] == "Pipelined") & (found["line"] != "main")]
    assert list(parts["name"]) == ["allreduce 1", "allreduce 2", "allreduce 3"] * 2  # two iterations
    whole = found[(found["panel"] == "b") & (found["setting"] == "Sequential") & (found["line"] != "main")]
    assert set(whole["name"]) == {"allreduce 1"} and found["start_ms"].min() >= 0
    ring = found[found["panel"] == "c"]
    assert set(ring["who"]) == {"W[0]", "W[1]", "W[2]"}
    assert list(ring[ring["rank"] == 1]["name"]) == ["communicate", "reduce"] * 2 + ["send back"] * 2
    assert set(traces.figure2(chosen["fig2"], None)["panel"]) == {"a", "b"}
    assert set(traces.figure2(None, chosen["fig3-ring"])["panel"]) == {"c"} and not len(traces.figure2(None, None))


def test_figure_3_has_native_and_pipelined_rings_of_every_codec(chosen):
    run = traces.ring_run(chosen["fig3-ring"])
    assert run["workers"] == 4
    found = traces.figure3(run)
    assert set(found[found["codec"].map(traces.light)]["codec"]) == {"none", "truncate16", "quantize8"}
    assert set(found[found["codec"] == "none"]["name"]) == {"communicate", "reduce"}
    assert set(found[found["codec"] == "truncate16"]["name"]) == {"communicate", "decompress+sum+compress"}
    assert set(found[found["pipelined"]]["line"]) == {"1. communicate", "2. work"}
    assert set(found[~found["pipelined"]]["line"]) == {"main"}
    assert len(traces.raw(run["result"]["variants"][0]["trace"])) == 4 * 9


def test_the_ring_s_tables_have_every_world_variant_and_benchmark(chosen):
    variants, overheads = frames_ring.variants(chosen["fig3-ring"]), frames_ring.overheads(chosen["fig3-ring"])
    assert len(variants) == 2 * 8 and len(overheads) == 2 * 4
    native = variants[(variants["ring"] == "native") & (variants["ranks"] == "4")].iloc[0]
    assert native["allreduce (ms)"] == f"12.00 [10.80{DASH}13.20]" and native["closed form (ms)"] == "12.00"
    tern = overheads[(overheads["codec"] == "ternary") & (overheads["benchmark"] == "AlexNet")].iloc[0]
    assert tern["work / uncompressed"] == f"2.20{TIMES}" and tern["work / compressed"] == f"22.0{TIMES}"


def test_predictions_have_an_error_a_variant_model_and_world_size(chosen):
    found = frames_timing.predictions(chosen["timing-model"])
    assert len(found) == 2 * 4 * 4 and found["error"].tolist() == pytest.approx([0.01] * len(found))
    server = found[found["equation"] == "server"]
    assert server["printed_error"].isna().all() and not found[found["equation"] == "(2)"]["printed_error"].isna().any()
    table = frames_timing.by_world(found)
    assert list(table.columns)[-4:] == ["p = 2", "p = 4", "p = 8", "p = 16"] and len(table) == 8
    assert "(+1.0 %)" in table["p = 16"].iloc[0] and " / " in table["p = 16"].iloc[0]
    errors = frames_timing.errors(found).set_index(["equation", "reading"])
    assert errors.loc[("(2)", "as used here"), "absolute error, 95th percentile"] == "1.0 %"
    assert ("server", "exactly as printed") not in errors.index
    efficiency = frames_timing.efficiency(found)
    compressed = efficiency[efficiency["setting"] == "Pipe-SGD + T"].set_index("model")
    assert compressed.loc["MNIST-MLP", "p = 16"] == "99 / 100"
    fits = frames_timing.fits(chosen["timing-model"])
    assert fits["alpha (µs)"].iloc[0].endswith("; set: 50.0")
    assert len(frames_timing.fit_points(chosen["timing-model"])) == 12


def test_segments_turn_with_the_network(chosen):
    group = chosen["gradient-communication"]
    found = frames_timing.segments(frames_timing.predictions(group))
    assert sorted(found["segments"].unique()) == [1, 2, 4, 8] and len(found) == 2 * 16
    assert found["bytes_a_second"].is_monotonic_increasing
    every = frames_timing.turning(group)
    assert list(every["K"]) == ["2"] * 4 + ["1"] * 4 and set(every["model"]) == {"MNIST-MLP"}
    table = every[every["K"] == "2"]
    assert list(table["Gbit/s"]) == ["1", "10", "25", "100"]
    assert list(table["bound at L = 1"]) == ["communication", *["computation"] * 3]
    assert table["faster"].iloc[0] == "sequential" and table["faster"].iloc[-1] == "pipelined"


def test_K_and_lossy_tables_are_by_variant_and_over_seeds(chosen):
    found = frames_findings.spectrum(chosen["k-spectrum"])
    assert len(found) == 7 * 2 and set(found[found["staleness_lr"]]["K"]) == {4, 8}
    table = frames_findings.spectrum_table(found, "top1").set_index("setting")
    plain = ["K = 1", "K = 2", "K = 3", "K = 4", "K = 8"]
    assert list(table.index) == [*plain, "K = 4, staleness lr", "K = 8, staleness lr"]
    assert table.loc["K = 2", "K = 2 over it"] == f"1.00{TIMES}"
    assert "not reached" in table.loc["K = 8", "to 0.97 (s)"]
    lossy = frames_findings.lossy(chosen["lossy-parameters"])
    assert set(lossy["communicated"]) == {"gradients", "parameters"} and set(lossy["codec"]) == {"none", "T", "Q"}
    lost = frames_findings.lossy_table(lossy, "top1").set_index("setting")["top1 lost by compressing"]
    assert lost["Parameters + T"] == "0.0200" and lost["Gradients"] == DASH


def test_rates_have_a_slope_an_objective_and_K(chosen):
    found, slopes = frames_findings.rates(chosen["convergence"]), frames_findings.slopes(chosen["convergence"])
    assert len(found) == 2 * 3 * 2 * 8 and math.isclose(found["bound"].min(), 9 * 2048**-0.5)
    row = slopes[(slopes["objective"] == "convex") & (slopes["K"] == "2")].iloc[0]
    assert (row["slope, log-log"], row["within the bound"]) == ("-0.500", "2 of 2")
    assert (row["from t"], row["T"]) == ("64", "2,048")
