"""Parameter servers and pipelines on real ranks: lost servers and stages, profiles."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from repro.core.errors import InputError
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.experiment.key import keyed_values
from tests.support import virtual_runs
from tests.support.cli import repro, summary

QUICK = [
    "testbed=here", "grid=null", "seeds=1", "workers=3", "batch=60", "epochs=1", "eval_every=0.25",
    "checkpoint_every=0.25", "dataset.standin=always",
]  # fmt: skip


def run(results: Path, *overrides: str, fault: str = "") -> subprocess.CompletedProcess:
    return repro(results, "run", "pipesgd/fig4-mnist", "--json", "--no-mlflow", *QUICK, *overrides, fault=fault)


@pytest.mark.ranks
def test_a_lost_server_ends_the_run_and_it_resumes_to_the_same_weights(tmp_path):
    options = ["strategy=ibatch", "strategy.servers=1"]
    whole = summary(run(tmp_path / "whole", *options))
    assert [one["role"] for one in whole["per_rank"]] == ["worker"] * 3 + ["server"]
    fault = "kill:3:15"  # the server
    killed = run(tmp_path / "killed", *options, fault=fault)
    assert killed.returncode == 1 and "Traceback" not in killed.stderr
    assert "rank 3 was lost: ended by SIGKILL" in killed.stderr and "resumes" in killed.stderr
    resumed = run(tmp_path / "killed", *options, fault=fault)
    assert "resuming" in resumed.stderr
    again = summary(resumed)
    assert again["weights_sha256"] == whole["weights_sha256"] and again["wall"]["resumes"] == 1
    assert again["pipeline"]["profile"] is not None


@pytest.mark.ranks
def test_a_run_follows_the_profile_of_another(tmp_path):
    first = summary(run(tmp_path, "strategy=ibatch", "epochs=0.25"))
    (path,) = tmp_path.glob("**/summary.json")
    decided = json.loads(repro(tmp_path, "batches", str(path), "--mode", "exact", "--json").stdout)
    assert decided["batches"][-1][1] == len(first["pipeline"]["layers"])
    given = ["strategy=ibatch", "strategy.mode=exact", f"strategy.profile={path}", "epochs=0.25"]
    again = summary(run(tmp_path / "again", *given))
    assert again["pipeline"]["batches"] == decided["batches"]
    assert again["weights_sha256"] == first["weights_sha256"]
    other = run(tmp_path / "other", *given, "workers=2")
    assert other.returncode == 2 and "is of 3 workers" in other.stderr and "Traceback" not in other.stderr


def test_a_profile_of_another_model_is_one_line(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text('{"startup_s": 1, "transfer_s": [1, 2], "forward_s": [1, 1]}')
    with pytest.raises(InputError, match="has 2 layers, but the model has"):
        virtual_runs.run(tmp_path, "strategy=ibatch", f"strategy.profile={path}")


@pytest.mark.ranks
def test_the_choice_of_auto_is_recorded(tmp_path):
    auto = summary(run(tmp_path, "strategy=dsync", "strategy.algorithm=auto", "epochs=0.25"))["allreduce"]
    assert auto["why"].startswith("measured at start") and auto["measured"][0]["ring_s"] > 0
    rows = json.loads(repro(tmp_path, "results", "pipesgd", "--json").stdout)
    (row,) = [row for row in rows if row.get("allreduce.auto")]
    assert row["allreduce.auto"] == auto["auto"] and row["allreduce.above_bytes"] == auto["above_bytes"]


# --- pipelines


EXPERIMENT = "pipesgd/fig4-mnist"
# three ranks on the digits, 20 iterations; checkpoints lie between the evaluations
QUICK_PIPELINE = ["dataset.standin=always", "workers=3", "batch=60", "epochs=0.857", "eval_every=0.43",
                  "checkpoint_every=0.1", "testbed=here"]  # fmt: skip


def run_pipeline(results, *overrides, fault=""):
    return repro(results, "run", EXPERIMENT, "--json", "--no-mlflow", *QUICK_PIPELINE, *overrides, fault=fault)


@pytest.mark.ranks
def test_a_killed_stage_resumes_to_the_same_weights(tmp_path):
    pipeline, fault = ("strategy=pipedream", "strategy.config=2-1", "strategy.cuts=[2]"), "kill:2:30"
    whole = summary(run_pipeline(tmp_path / "whole", *pipeline))
    assert whole["pipeline"]["config"] == "2-1" and whole["pipeline"]["source"] == "given"
    assert [rank["stage"] for rank in whole["per_rank"]] == [0, 0, 1]
    for rank in whole["per_rank"]:
        predicted = rank["predicted"]
        assert {name: rank[name] for name in ("weights_bytes", "stash_bytes")} == {
            name: predicted[name] for name in ("weights_bytes", "stash_bytes")
        }
        # more than what a stage keeps, which two blocks may share; less by what the loss keeps
        assert predicted["activation_bytes"] / 1.5 < rank["activation_bytes"] < 1.1 * predicted["activation_bytes"]
    results = tmp_path / "killed"
    killed = run_pipeline(results, *pipeline, fault=fault)
    assert killed.returncode == 1 and "Traceback" not in killed.stderr
    assert "rank 2 was lost: ended by SIGKILL" in killed.stderr and "resumes" in killed.stderr
    resumed = run_pipeline(results, *pipeline, fault=fault)
    assert "resuming" in resumed.stderr
    again = summary(resumed)
    assert again["weights_sha256"] == whole["weights_sha256"]
    for name in ("iteration", "top1", "loss"):
        assert [p[name] for p in again["curve"]] == [p[name] for p in whole["curve"]], name
    assert again["bytes_sent"] == whole["bytes_sent"] and again["staleness"] == whole["staleness"]
    assert again["wall"]["resumes"] == 1


@pytest.mark.parametrize(("overrides", "message"), [
    (["strategy.config=1-1"], "strategy.config=1-1: is for 2 machines, but the run has workers=3"),
    (["strategy.profile=nowhere.json"], "nowhere.json: No such file"),
])  # fmt: skip
def test_bad_input_is_refused_before_ranks_start(overrides, message):
    with pytest.raises(InputError, match=message):
        identify_runs(expand_runs(EXPERIMENT, ["strategy=pipedream", *QUICK_PIPELINE, *overrides]))


def test_the_contents_of_a_profile_count_in_the_key(tmp_path):
    profile, keys = tmp_path / "profile.json", []
    for text in ("one", "another", "one"):
        profile.write_text(text)
        (planned,) = expand_runs(EXPERIMENT, ["strategy=pipedream", f"strategy.profile={profile}", "testbed=here"])
        keys.append(keyed_values(planned.config))
    assert keys[0] == keys[2] != keys[1]
    (planned,) = expand_runs(EXPERIMENT, ["strategy=pipedream", "testbed=here"])
    assert "files" not in keyed_values(planned.config)
