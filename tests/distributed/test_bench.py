"""`repro bench`: collectives on every fabric, parameter servers, pipelining, what it refuses."""

from __future__ import annotations

import json

import pytest
import torch

from repro.bench import allreduce, codecs, loading, loop, parameter_server, pipelining, suite, virtual
from repro.bench.calls import NAMES, checker, pattern
from repro.bench.collective import bench_collective, table
from repro.cli.main import main
from repro.core.errors import FaultError, InputError

# --- `repro bench`: the collectives on every fabric, what it refuses, and small runs of each benchmark


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [2, 4])
def test_virtual_agrees_with_the_closed_form(name: str, ranks: int) -> None:
    result = bench_collective(name, ranks, 4004, "virtual")
    assert result["kind"] == "simulated" and len(result["seconds"]["all"]) == 1
    assert result["seconds"]["median"] == pytest.approx(result["closed_form"], rel=1e-11)
    assert (result["alpha"], result["beta"], result["gamma"]) == (1e-4, 1e-9, 1e-10)
    assert "closed form" in table(result)


@pytest.mark.parametrize("name", ["ring", "ring_pipelined"])
@pytest.mark.parametrize("codec", ["truncate16", "quantize8", "ternary"])
def test_virtual_with_a_codec(name: str, codec: str) -> None:
    result = bench_collective(name, 5, 40_000, "virtual", codec, alpha=1e-5, beta=2e-9, gamma=0.0)
    assert result["seconds"]["median"] == pytest.approx(result["closed_form"], rel=1e-11)
    plain = bench_collective(name, 5, 40_000, "virtual", "none", 1, 1e-5, 2e-9, 0.0)
    assert result["seconds"]["median"] < plain["seconds"]["median"]


def test_pieces() -> None:
    times = []
    for pieces in (1, 2, 8):
        result = bench_collective("ring_pipelined", 4, 4_000_000, "virtual", pieces=pieces)
        assert result["pieces"] == pieces and f"{pieces} pieces a block" in table(result)
        assert result["seconds"]["median"] == pytest.approx(result["closed_form"], rel=1e-11)
        times.append(result["seconds"]["median"])
    assert times[0] == pytest.approx(bench_collective("ring", 4, 4_000_000, "virtual")["closed_form"], rel=1e-11)
    assert times[0] > times[1] == pytest.approx(times[2])  # two pieces hide the reduction and all latency but one
    assert times[2] == pytest.approx(2 * 3 / 4 * 4_000_000 * 1e-9 + 1e-4)
    assert bench_collective("ring", 4, 4000, "virtual")["pieces"] is None


def test_virtual_with_many_ranks_needs_no_memory() -> None:
    result = bench_collective("ring", 72, 575_000_000, "virtual")
    assert result["seconds"]["median"] == pytest.approx(result["closed_form"], rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rnig"], "unknown collective 'rnig'; valid: ring"),
        (["ring", "--fabric", "tcp"], "unknown fabric 'tcp'"),
        (["ring", "--codec", "zip"], "unknown codec 'zip'"),
        (["tree", "--codec", "quantize8"], "'tree'"),
        (["ring", "--ranks", "0"], "--ranks 0"),
        (["server", "--ranks", "1"], "--ranks 1"),
        (["ring", "--bytes", "0"], "--bytes 0"),
        (["ring", "--bytes", "6"], "--bytes 6"),
        (["ring", "--repeat", "0"], "--repeat 0"),
        (["ring", "--pieces", "2"], "--pieces 2"),
        (["ring_pipelined", "--pieces", "0"], "--pieces 0"),
        (["ring", "--alpha", "-1"], "--alpha -1"),
        (["ring", "--beta", "nan"], "--beta nan"),
        (["ring", "--gamma", "inf"], "--gamma inf"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: list[str], says: str, capsys) -> None:
    assert main(["bench", "collective", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_json_from_the_command_line(capsys) -> None:
    assert main(["bench", "collective", "tree", "--ranks", "3", "--bytes", "400", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "tree"


def test_a_wrong_result_is_a_fault() -> None:
    class Two:
        rank, size = 0, 2

    check = checker("ring", Two, 7, "none")
    check(pattern(0, 7) + pattern(1, 7))
    for wrong in (pattern(0, 7), torch.full((7,), float("nan"))):
        with pytest.raises(FaultError, match="ring over 2 ranks"):
            check(wrong)
    with pytest.raises(FaultError):
        checker("ring", Two, 7, "quantize8")(torch.full((7,), float("nan")))


@pytest.mark.ranks
@pytest.mark.parametrize("fabric", ["mpi", "torch"])
def test_on_real_ranks(fabric: str) -> None:
    from repro.bench.ranks import run_jobs

    jobs = [{"name": name, "bytes": 4004, "codec": "none", "repeat": 1} for name in NAMES]
    codecs = ("truncate16", "quantize8", "ternary")
    jobs += [{"name": "ring", "bytes": 4004, "codec": codec, "repeat": 2} for codec in codecs]
    jobs += [{"name": "ring_pipelined", "bytes": 4004, "codec": codec, "repeat": 2, "pieces": 3} for codec in codecs]
    times = run_jobs(fabric, 3, jobs)  # the ranks check every result
    assert [len(seconds) for seconds in times] == [job["repeat"] for job in jobs]
    assert all(second > 0 for seconds in times for second in seconds)


def test_a_measured_collective_has_a_closed_form_only_with_a_network(monkeypatch) -> None:
    monkeypatch.setattr("repro.bench.ranks.run_jobs", lambda fabric, ranks, jobs, device: [[1e-3, 2e-3]])
    without = bench_collective("ring", 2, 4000, "mpi", repeat=2)
    assert without["closed_form"] is None and "--alpha and --beta" in table(without)
    assert without["kind"] == "measured"


@pytest.mark.ranks
def test_loop_trains_the_same_weights_as_the_bare_loop() -> None:
    result = loop.measure(iterations=3, turns=2)
    assert result["same_weights"] and result["of_best"] > 0 and len(result["against_goals"]) == 1
    assert "ratio" in loop.table(result)


@pytest.mark.ranks
def test_allreduce_rows(monkeypatch) -> None:
    monkeypatch.setattr(allreduce, "RANKS", 2)
    monkeypatch.setattr(allreduce, "turns", lambda nbytes: 2)
    result = allreduce.measure((4000, 80_000), (allreduce.Network("mpi", None), allreduce.Network("torch", None)))
    settings = ["default", *allreduce.MPI_RINGS]
    assert [(row["fabric"], row["setting"], row["bytes"]) for row in result["rows"]] == [
        *(("mpi", setting, nbytes) for setting in settings for nbytes in (4000, 80_000)),
        *(("torch", "default", nbytes) for nbytes in (4000, 80_000)),
    ]
    assert len(result["against_goals"]) == 4 and allreduce.BLOCKING in result["rows"][0]["over_native"]
    assert "MPI's ring" in allreduce.table(result)


def test_auto_is_held_against_the_better_of_its_two() -> None:
    turns = [{"native": 4.0, "ring_pipelined": 2.0, "auto": 3.0}, {"native": 8.0, "ring_pipelined": 4.0, "auto": 4.0}]
    assert allreduce.auto_over_best(turns) == {"median": 1.25, "min": 1.0, "max": 1.5}
    found = allreduce.row(allreduce.Network("mpi", 1.0), "default", 40_000_000, turns)
    assert found["wire_s"] == pytest.approx(1.5 * 40e6 * 8e-9 * 1514 / 1448)
    auto, wire = allreduce.goals([found])
    assert not auto["met"] and wire["value"] == pytest.approx(found["wire_s"] / 3.0) and not wire["met"]


def test_codec_rows() -> None:
    result = codecs.measure(sizes=(1000,), turns=1)
    found = {row["work"] for row in result["rows"]}
    assert found >= {"clone", "none add", "quantize8 encode", "truncate16 decode", "ternary add"}
    assert "quantize8 add" in codecs.table(result)


def test_suite_writes_its_result(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setattr(virtual.measure, "__defaults__", ((3,), 300, 1))
    results = suite.run_suite("virtual")
    written = json.loads((tmp_path / "bench" / "virtual.json").read_text())
    assert written == results["virtual"] and written["kind"] == "measured" and written["hardware"]["class"]
    [row] = written["rows"]
    assert row["virtual_s"]["recurrence"] == row["virtual_s"]["events"] == pytest.approx(row["closed_form_s"])
    assert "virtual fabric" in capsys.readouterr().err


def test_loading(monkeypatch) -> None:
    """Both sides draw the same images; the goal is judged where the cores are that it is for."""
    for cores, judged in ((2, 0), (16, 1)):
        monkeypatch.setattr(loading.os, "sched_getaffinity", lambda _, cores=cores: range(cores))
        result = loading.measure(turns=2, model="softmax", size=32, steps=2)
        assert result["cores"] == cores and len(result["against_goals"]) == judged
        assert set(result["step_s"]) == {"ahead", "memory"} and len(result["step_s"]["ahead"]["all"]) == 2
        assert result["ratio"]["min"] <= result["ratio"]["median"] <= result["ratio"]["max"]
        assert ("is for 16 cores: not judged on 2" in loading.table(result)) == (not judged)


def test_suite_refuses_an_unknown_benchmark() -> None:
    with pytest.raises(InputError, match="unknown benchmark 'lop'; valid: loop"):
        suite.run_suite("lop")


# --- the benchmark of parameter servers: every way on every fabric, and a simulated step


@pytest.mark.ranks
def test_every_way_is_timed():
    result = parameter_server.measure(worlds=(2,), sizes=(1 << 16,), calls=1, rounds=2, nodes=3, turns=1)
    rows = result["rows"]
    assert [(row["fabric"], row["way"]) for row in rows] == [
        (fabric, way) for fabric in ("mpi", "torch") for way in parameter_server.WAYS
    ]
    for row in rows:
        assert len(row["seconds"]["all"]) == 2 and row["seconds"]["median"] > 0
        assert row["way"] != "allreduce" or row["ratio"] == 1.0
    steps = {one["mode"]: one for one in result["simulated"]}
    assert steps["ibatch"]["iteration_s"] < steps["default"]["iteration_s"] and steps["ibatch"]["cpu_s"] > 0
    assert "VGG19-22K" in parameter_server.table(result)


# --- the benchmark against torch.distributed.pipelining: both sides train the same, and its table says what was found


@pytest.mark.ranks
def test_both_sides_train_to_the_same_weights():
    found = pipelining.measure(worlds=(2,), models=("mlp",), batch=4, flush=4, minibatches=8, turns=1)
    assert [(row["ours"], row["theirs"]) for row in found["rows"]] == list(pipelining.COMPARED.items())
    for row in found["rows"]:
        assert row["ours_s"] > 0 and row["theirs_s"] > 0 and row["parameters"] > 1e6 and row["cuts"] == [4]
        ratio = row["ratio"]
        assert ratio["min"] <= ratio["median"] <= ratio["max"]
        assert row["apart"] is None if row["ours"] == "1f1b" else row["apart"] < 1e-5
    assert ["1f1b-flush" in one["what"] or "gpipe" in one["what"] for one in found["against_goals"]] == [True, True]
    text = pipelining.table(found)
    assert "one update a minibatch" in text and "torch gpipe" in text


def test_a_ratio_is_of_neighbouring_turns():
    job = {"model": "mlp", "batch": 4, "flush": 4, "minibatches": 2}
    found = {"parameters": 1, "cuts": [1], "apart": {},
             "seconds": {"gpipe": [1.0, 2.0, 4.0], "torch gpipe": [2.0, 2.0, 2.0]}}  # fmt: skip
    row = pipelining.row(2, job, found, "gpipe", "torch gpipe")
    assert row["ratio"] == {"median": 1.0, "min": 0.5, "max": 2.0} and row["ours_s"] == 1.0 and row["apart"] is None
