"""Whole runs through the command line, ranks really started: caching, resume after kills, repeatable simulation."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys

import mlflow
import pytest

from repro import strategies
from repro.testing import real, small
from tests.support.cli import EXPERIMENT, QUICK, repro, run, summary

DETERMINISTIC = [
    n for n in strategies.strategy_names() if not real.needed_library(n) and strategies.load_strategy(n)().deterministic
]


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def stable(summary: dict) -> str:
    lasting = {key: value for key, value in summary.items() if key not in ("provenance", "wall")}
    return json.dumps(lasting | {"identity": summary["identity"].plain()})


PIPE = ("strategy=pipe_sgd", "strategy.codec=quantize8", "testbed=here")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The results folder of Pipe-SGD's undisturbed run, and its summary."""
    results = tmp_path_factory.mktemp("whole")
    return results, summary(run(results, *PIPE))


@pytest.mark.ranks
def test_killed_ranks_resume_to_the_same_bits_despite_a_committed_summary(results, undisturbed):
    committed, whole = undisturbed
    shutil.copytree(committed, results)
    (events,) = results.rglob("events.jsonl")
    events.unlink()
    fault = "kill:1:29"
    killed = run(results, *PIPE, fault=fault)
    assert killed.returncode == 1 and "Traceback" not in killed.stderr
    assert "rank 1 was lost: ended by SIGKILL" in killed.stderr and "resumes" in killed.stderr
    resumed = run(results, *PIPE, fault=fault)
    assert "resuming" in resumed.stderr and "done already" not in resumed.stderr
    again = summary(resumed)
    assert again["weights_sha256"] == whole["weights_sha256"]
    assert [p["top1"] for p in again["curve"]] == [p["top1"] for p in whole["curve"]]
    assert again["wall"]["resumes"] == 1 and again["iterations"] == whole["iterations"] == 30
    assert again["bytes_sent"] == whole["bytes_sent"]


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("strategy", "launcher"),  # an exchange in the main task, one in a separate task
    [("dsync", "mpirun"), ("pipe_sgd", "torchrun")],
)
def test_a_stopped_rank_ends_the_run_with_its_name(results, strategy, launcher):
    here = ("testbed=here", f"testbed.launcher={launcher}")
    done = run(results, f"strategy={strategy}", *here, "timeout_s=4", fault="stop:1:5")
    assert done.returncode == 1
    assert "rank 0" in done.stderr and "nothing after 4 s" in done.stderr
    assert re.search(r"(receive from|send to) rank 1 \(tag \d+, channel \d\)", done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.ranks
@pytest.mark.parametrize("name", [name for name in DETERMINISTIC if strategies.load_strategy(name).identical_replicas])
def test_every_fabric_gives_the_same_bits(name):
    """Same named algorithm, same order of summation: the fabric does not matter."""
    ends = [small.run(name, workers=3, fabric=fabric) for fabric in (None, "mpi", "torch")]
    assert ends[0].digests == ends[1].digests == ends[2].digests
    assert ends[0].losses == ends[1].losses == ends[2].losses


@pytest.mark.ranks
def test_every_launcher_gives_the_same_bits(tmp_path):
    """Through the command line, with a rank that is a server."""
    torchrun = ["testbed=here", "testbed.launcher=torchrun"]
    beds = {"mpi": ["testbed=here"], "torch": torchrun, "virtual": ["testbed=virtual"]}
    chosen = ("strategy=ps_sync", "workers=3", "batch=60")
    ends = {bed: summary(run(tmp_path / bed, *chosen, *overrides)) for bed, overrides in beds.items()}
    assert {bed: end["fabric"] for bed, end in ends.items()} == {bed: bed for bed in beds}
    assert len({end["weights_sha256"] for end in ends.values()}) == 1


@pytest.mark.ranks
def test_measured_pipe_sgd_overlaps_and_accounts_for_its_time(undisturbed):
    _, whole = undisturbed
    assert whole["kind"] == "measured" and whole["ranks"] == 2
    assert whole["communication"]["overlapped_s"] > 0
    assert sum(whole["phases"].values()) == pytest.approx(whole["step"]["mean_s"], rel=1e-9)
    wall = whole["wall"]
    parts = sum(wall[f"{name}_s"] for name in ("training", "evaluation", "checkpoint", "synchronisation", "logging"))
    assert parts == pytest.approx(wall["total_s"], rel=1e-9)
    assert 0 < wall["train_s"] <= wall["total_s"]  # the slowest rank's clock, and rank 0's


@contextlib.contextmanager
def busy_loops(results):
    """One for each core, from when the ranks of a run begin."""
    begun = (
        f"import pathlib, time\nwhile not [*pathlib.Path({str(results)!r}).rglob('events.jsonl')]: time.sleep(0.1)\n"
    )
    program = [sys.executable, "-c", begun + "while True: pass"]
    loops = [subprocess.Popen(program) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.ranks
def test_a_run_beside_busy_loops_is_marked_as_such(results):
    with busy_loops(results):
        run(results, "strategy=dsync", "testbed=here")
    shown = repro(results, "results", "--where", "origin=workspace").stdout
    assert re.search(r"measured .* \d\d % taken by others", shown), shown


def test_finished_runs_are_skipped_and_force_runs_them_to_the_same_bytes(results):
    chosen = ("strategy=pipe_sgd", "testbed=paper/pipesgd", "workers=4")
    first = summary(run(results, *chosen))
    second = run(results, *chosen)
    assert "1 of 1 runs are done already" in second.stderr
    assert summary(second)["provenance"] == first["provenance"]
    forced = summary(run(results, *chosen, flags=("--no-mlflow", "--force")))
    assert stable(forced) == stable(first) and first["kind"] == "simulated"
    assert forced["wall"] != first["wall"]
    assert len(list(results.rglob("summary.json"))) == 1


def test_an_experiment_s_runs_are_mirrored_to_mlflow_and_build_no_page(results):
    chosen = ["strategy=dsync,pipe_sgd", "testbed=virtual"]  # side by side
    done = repro(results, "run", EXPERIMENT, *QUICK, *chosen)
    assert done.returncode == 0, done.stderr
    assert "repro report pipesgd" in done.stdout
    assert "building the page" not in done.stderr and not (results.parent / "reports").exists()
    assert str(results / "pipesgd") in done.stdout and "repro ui" in done.stdout
    client = mlflow.MlflowClient(f"sqlite:///{results / 'mlflow.db'}")
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    parents = {run.data.tags["mlflow.parentRunId"] for run in runs if "mlflow.parentRunId" in run.data.tags}
    assert {run.info.status for run in runs} == {"FINISHED"} and len(runs) == 2 + len(parents) == 4
    assert all(run.data.metrics["top1"] > 0.3 for run in runs if run.info.run_id not in parents)
