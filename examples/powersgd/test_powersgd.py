"""The network has its published size, and ranks send what their factors are."""

import json
from pathlib import Path

import pytest
import repro_powersgd
from repro_powersgd.resnet18_cifar import build

from repro.cli.main import main


@pytest.fixture(autouse=True)
def workspace(tmp_path, monkeypatch):
    """Runs of the tests, and the paper's folder where the package is not installed."""
    monkeypatch.setenv("REPRO_CONFIGS", str(Path(repro_powersgd.__file__).parent))
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))


def test_the_network_has_its_parameters():
    assert sum(each.numel() for each in build((3, 32, 32), 10).parameters()) == 11_173_962


def test_ranks_send_what_their_factors_are(capsys):
    chosen = ["workers=2,16", "method=rank 1,rank 2,SGD"]
    assert main(["run", "powersgd/step-time", *chosen, "--json", "--no-report", "--no-mlflow"]) == 0
    listed = json.loads(capsys.readouterr().out)
    sent = {run["identity"]["variant"]: run["result"]["bytes_sent"] for run in listed}
    parameters = sum(each.numel() for each in build((3, 32, 32), 10).parameters())
    assert sent["SGD, 2"] == 4 * parameters and sent["SGD, 16"] == pytest.approx(2 * 15 / 16 * 4 * parameters, rel=1e-3)
    assert sent["SGD, 16"] / sent["rank 1, 16"] > sent["SGD, 16"] / sent["rank 2, 16"] > 100
