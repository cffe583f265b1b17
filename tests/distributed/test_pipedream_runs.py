"""Pipelines through the command line, ranks really started: a killed stage, checkpoints by each alone, refusals."""

from __future__ import annotations

import pytest

from repro.launch import runs
from tests.support.cli import repro, summary

EXPERIMENT = "pipesgd/fig4-mnist"
# three ranks on the digits, 20 iterations; checkpoints lie between the evaluations
QUICK = ["dataset.standin=always", "workers=3", "batch=60", "epochs=0.857", "eval_every=0.43", "checkpoint_every=0.1",
         "testbed=here"]  # fmt: skip


def run(results, *overrides, fault=""):
    return repro(results, "run", EXPERIMENT, "--json", "--no-mlflow", *QUICK, *overrides, fault=fault)


@pytest.mark.ranks
@pytest.mark.parametrize(("config", "cuts", "fault"), [("1-1-1", "[1,2]", "kill:0:13"), ("2-1", "[2]", "kill:2:30")])
def test_a_killed_stage_resumes_to_the_same_weights(tmp_path, config, cuts, fault):
    pipeline = ("strategy=pipedream", f"strategy.config={config}", f"strategy.cuts={cuts}")
    whole = summary(run(tmp_path / "whole", *pipeline))
    assert whole["pipeline"]["config"] == config and whole["pipeline"]["source"] == "given"
    assert [rank["stage"] for rank in whole["per_rank"]] == {"1-1-1": [0, 1, 2], "2-1": [0, 0, 1]}[config]
    for rank in whole["per_rank"]:
        predicted = rank["predicted"]
        assert {name: rank[name] for name in ("weights_bytes", "stash_bytes")} == {
            name: predicted[name] for name in ("weights_bytes", "stash_bytes")
        }
        # more than what a stage keeps, which two blocks may share; less by what the loss keeps
        assert predicted["activation_bytes"] / 1.5 < rank["activation_bytes"] < 1.1 * predicted["activation_bytes"]
    results = tmp_path / "killed"
    killed = run(results, *pipeline, fault=fault)
    assert killed.returncode == 1 and "Traceback" not in killed.stderr
    assert f"rank {fault[5]} was lost: ended by SIGKILL" in killed.stderr and "resumes" in killed.stderr
    resumed = run(results, *pipeline, fault=fault)
    assert "resuming" in resumed.stderr
    again = summary(resumed)
    assert again["weights_sha256"] == whole["weights_sha256"]
    for name in ("iteration", "top1", "loss"):
        assert [p[name] for p in again["curve"]] == [p[name] for p in whole["curve"]], name
    assert again["bytes_sent"] == whole["bytes_sent"] and again["staleness"] == whole["staleness"]
    assert again["wall"]["resumes"] == 1


@pytest.mark.ranks
def test_a_stopped_stage_ends_the_run_with_its_name(tmp_path):
    done = run(tmp_path, "strategy=pipedream", "strategy.config=1-1-1", "strategy.cuts=[1,2]", "timeout_s=4",
               fault="stop:1:5")  # fmt: skip
    assert done.returncode == 1 and "nothing after 4 s" in done.stderr and "rank 1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("overrides", "message"), [
    (["strategy.config=1-1"], "strategy.config=1-1: is for 2 machines, but the run has workers=3"),
    (["strategy.config=1-1-1", "strategy.cuts=[1]"], "has 3 stages, so 2 cuts"),
    (["strategy.config=straight", "workers=6"], "6 stages"),
    (["strategy.profile=nowhere.json"], "nowhere.json: No such file"),
    (["optimizer.clip_norm=1.0"], "clip_norm"),
])  # fmt: skip
def test_bad_input_is_one_line(tmp_path, overrides, message):
    done = run(tmp_path / "results", "strategy=pipedream", *overrides)
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert message in last and "Traceback" not in done.stderr


def test_the_contents_of_a_profile_count_in_the_key(tmp_path):
    profile, found = tmp_path / "profile.json", []
    for text in ("one", "another", "one"):
        profile.write_text(text)
        (planned,) = runs.expand(EXPERIMENT, ["strategy=pipedream", f"strategy.profile={profile}", "testbed=here"])
        found.append(runs.keyed(planned.config))
    assert found[0] == found[2] != found[1]
    (planned,) = runs.expand(EXPERIMENT, ["strategy=pipedream", "testbed=here"])
    assert "files" not in runs.keyed(planned.config)
