"""The benchmarks of `make bench` on real ranks, small: what each finds, and the goals that are judged on it."""

from __future__ import annotations

import json
import os
from unittest import mock

import pytest

from repro.core.errors import TooBusy
from repro.core.not_none import not_none
from tests.bench import gtopk_exchange, simulator
from tests.support.cli import forked, repro
from tests.support.records import read_summary


def run_bench(results, *arguments: str):
    return forked("tests.bench", *arguments, environment=os.environ | {"REPRO_RESULTS": str(results)})


def bench(results, name: str) -> tuple[list[dict], list[dict]]:
    """Records and goals of one benchmark."""
    done = run_bench(results, "--only", name, "--scale", "quick", "--json")
    assert done.returncode == 0, done.stderr
    goals = json.loads(done.stdout)[name]
    assert json.loads((results / "bench" / name / "goals.json").read_text()) == goals
    return records(results), goals


def records(results) -> list[dict]:
    return [not_none(read_summary(path.parent)) for path in sorted(results.glob("bench/*/*/summary.json"))]


@pytest.mark.ranks
def test_every_collective_on_real_ranks_gives_the_right_result(tmp_path):
    """The ranks check it."""
    names = "ring,recursive_doubling,tree,server,native,auto,allgather,reduce_scatter,broadcast,reduce,topk,gtopk"
    for launcher, more in (("mpirun", ",blocking"), ("torchrun", "")):
        run = ["run", "bench/collective", "testbed=here", f"testbed.launcher={launcher}", "workers=3", "batch=3"]
        of = [f"probe.names=[{names}{more}]", "probe.bytes=[40004]", "probe.repeat=1", "--no-report", "--no-mlflow"]
        assert repro(tmp_path, *run, *of).returncode == 0
    for summary in records(tmp_path):
        assert all(row["seconds"]["min"] > 0 and row["closed_form_s"] is None for row in summary["result"]["rows"])


@pytest.mark.ranks
def test_the_loop_trains_the_same_weights_as_the_bare_loop(tmp_path):
    [summary], [goal] = bench(tmp_path, "loop")
    assert summary["result"]["same_weights"] and goal["value"] == summary["result"]["of_best"] > 0


@pytest.mark.ranks
def test_virtual_workers_train_the_same_weights_side_by_side(tmp_path):
    [summary], goals = bench(tmp_path, "virtual-workers")
    variants = summary["result"]["variants"]
    assert [goal["value"] for goal in goals] == [variant["of_bare"] for variant in variants]
    assert variants and all(variant["difference"] == 0 for variant in variants)


@pytest.mark.ranks
def test_gtopk_beside_its_authors(tmp_path):
    _, goals = bench(tmp_path, "gtopk")
    rows = json.loads((tmp_path / "bench" / "gtopk" / "rows.json").read_text())
    assert {row["side"] for row in rows} >= {"ours", "sampled", "authors"}
    assert goals and goals[0]["value"] > 0


def test_a_testbed_that_a_busy_machine_cannot_have_is_left_out_with_a_warning(monkeypatch, capsys):
    rows_or_fault = mock.Mock(side_effect=[[{"side": "ours"}], TooBusy("1 Gbit/s cannot be reached")])
    monkeypatch.setattr(gtopk_exchange, "run_ranks", rows_or_fault)
    assert [row["testbed"] for row in gtopk_exchange.measure_rows("quick")] == ["here"]
    assert "1 Gbit/s cannot be reached" in capsys.readouterr().err


@pytest.mark.ranks
def test_partial_collectives_beside_the_librarys(tmp_path):
    found, goals = bench(tmp_path, "partial")
    assert len(found) == 2 and len(goals) == 2  # solo with each way of its rounds, where all come at once
    assert all(1 <= row["nap"] <= 3 for one in found for row in one["result"]["rows"])


def test_the_simulator_agrees_with_the_closed_form(tmp_path):
    _, goals = bench(tmp_path, "simulator")
    assert len(goals) == len(simulator.GOALS) and all(goal["value"] > 0 for goal in goals)
    for row in json.loads((tmp_path / "bench" / "simulator" / "rows.json").read_text()):
        assert row["virtual_s"] == pytest.approx(row["closed_form_s"])


def test_an_unknown_benchmark_is_named_with_the_valid_ones(tmp_path):
    done = run_bench(tmp_path, "--only", "lop")
    assert done.returncode == 2 and "unknown benchmark 'lop'; " in done.stderr and "loop" in done.stderr
