"""An installed wheel carries the configurations, claims and page templates, and finds them from any folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.waiting import LIMIT_S

PROJECT = Path(__file__).resolve().parents[3]


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S)


def repro(tmp_path: Path, places: list[Path], *arguments: str, **variables: str) -> str:
    """What the command says, with packages from these folders, in a folder that has nothing to do with the project."""
    kept = {name: value for name, value in os.environ.items() if name not in ("REPRO_RESULTS", "REPRO_REPORTS")}
    environment = kept | {"PYTHONPATH": os.pathsep.join(map(str, places))} | variables
    command = [sys.executable, "-m", "repro", *arguments]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_lists_runs_and_reports_in_the_current_folder(tmp_path):
    source = tmp_path / "source"
    leave = shutil.ignore_patterns("__pycache__", "out", "*.egg-info")
    shutil.copytree(PROJECT / "repro", source / "repro", ignore=leave)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(PROJECT / name, source / name)
    pip("wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path), str(source))
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    assert {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")} == {"repro"}

    def say(*arguments: str) -> str:
        return repro(tmp_path, [installed], *arguments)

    assert (installed / "repro" / "testing" / "strategies.py").is_file()
    assert "pipesgd/fig4-mnist" in say("list", "experiments")
    assert "K: 3" in say("show", "pipesgd/fig4-mnist", "strategy=pipe_sgd", "strategy.K=3", "--config")
    chosen = ["strategy=pipe_sgd", "codec=none", "testbed=paper/pipesgd", "testbed.arithmetic=none", "epochs=1"]
    (run,) = json.loads(say("run", "pipesgd/fig4-mnist", *chosen, "--json", "--no-report", "--no-mlflow"))
    assert run["result"]["final"]["train_s"] > 0 and list((tmp_path / "results" / "pipesgd" / "fig4-mnist").iterdir())
    origins = {row["origin"] for row in json.loads(say("results", "pipesgd", "--json"))}
    assert origins == {"reference", "workspace"}
    assert str(tmp_path / "results" / "pages" / "site" / "pipesgd.html") in say("report", "pipesgd")
    assert "no results yet" not in (tmp_path / "results" / "pages" / "pipesgd.md").read_text().lower()
