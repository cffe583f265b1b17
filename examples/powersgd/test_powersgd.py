"""The network has its published size, the experiments run, and the page judges the claims by what they found."""

import json
from pathlib import Path

import pytest
import repro_powersgd
from repro_powersgd.resnet18_cifar import build

from repro.cli.main import main


@pytest.fixture(autouse=True)
def workspace(tmp_path, monkeypatch):
    """Runs and pages of the tests, and the paper's folder where the package is not installed."""
    monkeypatch.setenv("REPRO_CONFIGS", str(Path(repro_powersgd.__file__).parent))
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    return tmp_path


def test_the_network_has_its_parameters():
    assert sum(each.numel() for each in build((3, 32, 32), 10).parameters()) == 11_173_962


def test_ranks_send_what_their_factors_are(capsys):
    chosen = ["workers=2,16", "method=rank 1,rank 2,SGD"]
    assert main(["run", "powersgd/step-time", *chosen, "--json", "--no-report", "--no-mlflow"]) == 0
    found = json.loads(capsys.readouterr().out)
    sent = {run["identity"]["label"]: run["result"]["bytes_sent"] for run in found}
    parameters = sum(each.numel() for each in build((3, 32, 32), 10).parameters())
    assert sent["SGD, 2"] == 4 * parameters and sent["SGD, 16"] == pytest.approx(2 * 15 / 16 * 4 * parameters, rel=1e-3)
    assert sent["SGD, 16"] / sent["rank 1, 16"] > sent["SGD, 16"] / sent["rank 2, 16"] > 100


def test_its_page_is_built_from_its_runs(workspace):
    chosen = ["method=SGD,rank 2", "workers=16"]
    assert main(["run", "powersgd/step-time", *chosen, "--draws", "2", "--no-report"]) == 0
    chosen = ["dataset.standin=always", "epochs=0.2", "eval_every=0.2"]
    assert main(["run", "powersgd/accuracy", *chosen, "--no-report", "--no-mlflow"]) == 0
    assert main(["run", "powersgd/step-time", "workers=16", "--no-report", "--no-mlflow"]) == 0
    assert main(["report", "powersgd", "--out", str(workspace / "pages")]) == 0
    page = (workspace / "pages" / "powersgd.md").read_text()
    assert "# PowerSGD, reproduced" in page and "Rank 2 on 16 workers" in page and "not run yet" not in page
