"""Whole runs through the command line, ranks really started: caching, resume after kills, repeatable simulation."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from repro import strategies
from repro.testing import real, small
from tests.support.cli import EXPERIMENT, QUICK, repro, run, summary

DETERMINISTIC = [n for n in strategies.names() if not real.library(n) and strategies.load(n)().deterministic]


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def stable(text: str) -> dict:
    return {key: value for key, value in json.loads(text).items() if key not in ("provenance", "wall")}


PIPE = ("strategy=pipe_sgd", "strategy.codec=quantize8", "testbed=here")
DSYNC = ("strategy=dsync", "testbed=here")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The summary of Pipe-SGD's undisturbed run."""
    return summary(run(tmp_path_factory.mktemp("whole"), *PIPE))


@pytest.fixture(scope="module")
def dsync(tmp_path_factory):
    """The results folder of D-Sync's undisturbed run, and its summary."""
    results = tmp_path_factory.mktemp("dsync")
    return results, summary(run(results, *DSYNC))


@pytest.mark.ranks
def test_killed_ranks_resume_to_the_same_bits(tmp_path, whole):
    fault = "kill:1:29"
    killed = run(tmp_path, *PIPE, fault=fault)
    assert killed.returncode == 1 and "Traceback" not in killed.stderr
    assert "rank 1 was lost: ended by SIGKILL" in killed.stderr and "resumes" in killed.stderr
    resumed = run(tmp_path, *PIPE, fault=fault)
    assert "resuming" in resumed.stderr
    again = summary(resumed)
    assert again["weights_sha256"] == whole["weights_sha256"]
    assert [p["top1"] for p in again["curve"]] == [p["top1"] for p in whole["curve"]]
    assert again["wall"]["resumes"] == 1 and again["iterations"] == whole["iterations"] == 30
    assert again["bytes_sent"] == whole["bytes_sent"]


@pytest.mark.ranks
def test_a_rank_killed_before_any_checkpoint_starts_anew(results, whole):
    late = "checkpoint_every=100"
    assert run(results, *PIPE, late, fault="kill:1:25").returncode == 1
    again = summary(run(results, *PIPE, late))
    assert again["weights_sha256"] == whole["weights_sha256"]
    # what the killed attempt had logged does not count
    assert [point["iteration"] for point in again["curve"]] == [point["iteration"] for point in whole["curve"]]
    assert again["bytes_sent"] == whole["bytes_sent"]


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("strategy", "launcher"),  # an exchange on the main line, one on a task of its own
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
@pytest.mark.parametrize("name", [name for name in DETERMINISTIC if strategies.load(name).identical_replicas])
def test_every_fabric_gives_the_same_bits(name):
    """Same named algorithm, same order of summation: the fabric does not matter."""
    ends = [small.run(name, workers=3, fabric=fabric) for fabric in (None, "mpi", "torch")]
    assert ends[0].digests == ends[1].digests == ends[2].digests
    assert ends[0].losses == ends[1].losses == ends[2].losses


@pytest.mark.ranks
def test_every_launcher_gives_the_same_bits(tmp_path):
    """The same through the command line, with a rank that is a server (with stages: test_pipedream)."""
    torchrun = ["testbed=here", "testbed.launcher=torchrun"]
    beds = {"mpi": ["testbed=here"], "torch": torchrun, "virtual": ["testbed=virtual"]}
    chosen = ("strategy=ps_sync", "workers=3", "batch=60")
    ends = {bed: summary(run(tmp_path / bed, *chosen, *overrides)) for bed, overrides in beds.items()}
    assert {bed: end["fabric"] for bed, end in ends.items()} == {bed: bed for bed in beds}
    assert len({end["weights_sha256"] for end in ends.values()}) == 1


@pytest.mark.ranks
def test_measured_pipe_sgd_overlaps_and_accounts_for_its_time(whole, dsync):
    assert whole["kind"] == "measured" and whole["ranks"] == 2
    assert whole["communication"]["overlapped_s"] > 0
    assert sum(whole["phases"].values()) == pytest.approx(whole["step"]["mean_s"], rel=1e-9)
    wall = whole["wall"]
    parts = sum(wall[f"{name}_s"] for name in ("training", "evaluation", "checkpoint", "synchronisation", "logging"))
    assert parts == pytest.approx(wall["total_s"], rel=1e-9)
    assert 0 < wall["train_s"] <= wall["total_s"]  # the slowest rank's clock, and rank 0's
    assert dsync[1]["communication"]["overlapped_s"] == 0


def test_simulation_is_deterministic_to_the_byte(tmp_path):
    texts = []
    for name in ("first", "second"):
        done = run(tmp_path / name, "strategy=pipe_sgd", "testbed=paper/pipesgd", "workers=4")
        assert done.returncode == 0, done.stderr
        (path,) = (tmp_path / name).rglob("summary.json")
        texts.append(json.dumps(stable(path.read_text()), sort_keys=True))
        assert stable(path.read_text())["kind"] == "simulated"
    assert texts[0] == texts[1]


def test_finished_runs_are_skipped_and_force_runs_them(results):
    chosen = ("strategy=dsync", "testbed=virtual")
    first = summary(run(results, *chosen))
    second = run(results, *chosen)
    assert "1 of 1 runs are done already" in second.stderr
    assert summary(second)["provenance"] == first["provenance"]
    forced = summary(run(results, *chosen, flags=("--no-mlflow", "--force")))
    assert forced["weights_sha256"] == first["weights_sha256"]
    assert forced["provenance"]["started_at"] >= first["provenance"]["started_at"]
    assert len(list(results.rglob("summary.json"))) == 1
    other = summary(run(results, *chosen, "optimizer.lr=0.05"))
    assert other["key"] != first["key"] and len(list(results.rglob("summary.json"))) == 2


@pytest.mark.ranks
def test_an_interrupted_run_is_not_done_because_of_a_committed_summary(results, dsync):
    shutil.copytree(dsync[0], results)
    (events,) = results.rglob("events.jsonl")
    events.unlink()
    assert run(results, *DSYNC, fault="kill:0:20").returncode == 1
    again = run(results, *DSYNC)
    assert "done already" not in again.stderr
    assert summary(again)["weights_sha256"] == dsync[1]["weights_sha256"]


def test_runs_are_mirrored_to_mlflow_and_no_page_is_built_where_none_is_wanted(results):
    done = repro(results, "run", EXPERIMENT, "--no-report", *QUICK, "testbed=virtual")  # all variants, side by side
    assert done.returncode == 0, done.stderr
    assert "building the page" not in done.stderr and not (results.parent / "reports").exists()
    assert str(results / "pipesgd") in done.stdout and "repro ui" in done.stdout
    code = (
        "import mlflow, sys; mlflow.set_tracking_uri(sys.argv[1]);"
        "runs = mlflow.search_runs(search_all_experiments=True);"
        "print(len(runs), runs.status[0], runs['metrics.top1'][0] > 0.3)"
    )
    seen = subprocess.run(
        [sys.executable, "-c", code, f"sqlite:///{results / 'mlflow.db'}"],
        capture_output=True,
        text=True,
        env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"},
    )
    assert seen.stdout.split() == ["7", "FINISHED", "True"], seen.stderr
