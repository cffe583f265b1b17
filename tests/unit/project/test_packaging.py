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


def files_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


COMMANDS = """import json, sys
from repro.cli.main import main
for command in json.loads(sys.argv[1]):
    assert main(command) == 0, command
    print(flush=True, end="\\0")
"""


def repro(tmp_path: Path, installed: Path, *commands: list[str]) -> list[str]:
    """What each command says, in one process with this folder's packages, where nothing is of the project."""
    kept = {name: value for name, value in os.environ.items() if name not in ("REPRO_RESULTS", "REPRO_REPORTS")}
    process = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    environment = kept | {"PYTHONPATH": str(installed)}
    done = subprocess.run(process, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\0")[:-1]


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
    assert files_below(installed / "repro") == files_below(source / "repro")  # templates, claims and tables too

    chosen = ["strategy=pipe_sgd", "codec=none", "testbed=paper/pipesgd", "testbed.arithmetic=none", "epochs=0.1"]
    listed, ran, shown, results, reported = repro(
        tmp_path,
        installed,
        ["list", "experiments"],
        ["run", "pipesgd/fig4-mnist", *chosen, "--json", "--no-report", "--no-mlflow"],
        ["show", "pipesgd/fig4-mnist", "strategy=pipe_sgd", "strategy.K=3", "--config"],
        ["results", "pipesgd", "--json"],
        ["report", "baselines"],  # the cheapest page
    )
    assert "pipesgd/fig4-mnist" in listed and "K: 3" in shown
    (run,) = json.loads(ran)
    assert run["result"]["final"]["train_s"] > 0 and list((tmp_path / "results" / "pipesgd" / "fig4-mnist").iterdir())
    assert {row["origin"] for row in json.loads(results)} == {"reference", "workspace"}
    assert str(tmp_path / "results" / "pages" / "site" / "baselines.html") in reported
    assert "no results yet" not in (tmp_path / "results" / "pages" / "baselines.md").read_text().lower()
