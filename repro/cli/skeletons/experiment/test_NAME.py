"""The experiment runs at its smallest size."""

import json
from pathlib import Path

from repro.cli.main import main


def test_it_trains(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    file = Path(__file__).with_name("NAME.yaml")
    chosen = ["dataset.standin=always", "epochs=0.1", "eval_every=0.1"]
    assert main(["run", str(file), *chosen, "--json", "--no-report", "--no-mlflow"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert len(records) == 2 and all(record["result"]["final"]["top1"] > 0 for record in records)
