"""Parameter servers on real ranks: the same weights whatever pulls what, a lost server, profiles that do not fit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

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
    default = summary(run(tmp_path / "default", "strategy=ps_default"))  # every rank a server, one pull
    assert whole["weights_sha256"] == default["weights_sha256"]
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
def test_a_profile_of_a_run_decides_the_next_one(tmp_path):
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


@pytest.mark.parametrize(("text", "message"), [
    ('{"startup_s": 1, "transfer_s": [1, -2, 1], "forward_s": [1, 1, 1]}', "transfer_s of layer 2=-2"),
    ('{"startup_s": 1, "transfer_s": [1, 2, 3]}', "lacks forward_s"),
    ('{"startup_s": 1, "transfer_s": [1, 2], "forward_s": [1, 1]}', "has 2 layers, but the model has"),
])  # fmt: skip
def test_bad_profiles_are_one_line(tmp_path, text, message):
    path = tmp_path / "profile.json"
    path.write_text(text)
    done = run(tmp_path / "results", "strategy=ibatch", f"strategy.profile={path}")
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.strip().splitlines()[-1] and "Traceback" not in done.stderr
