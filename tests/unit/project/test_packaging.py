"""An installed wheel carries the configurations, claims and page templates, and finds them from any folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.waiting import LIMIT_S

PROJECT = Path(__file__).resolve().parents[3]
PACKAGES = ("repro", "strategies", "reports", "paper_configs")


def test_a_wheel_lists_shows_and_reports(tmp_path):
    source = tmp_path / "source"
    leave = shutil.ignore_patterns("__pycache__", "out", "*.egg-info")
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, source / package, ignore=leave)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(PROJECT / name, source / name)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path)]
    subprocess.run([*build, str(source)], check=True, capture_output=True, timeout=LIMIT_S)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)

    def repro(*arguments: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(installed), "REPRO_RESULTS": str(tmp_path / "results")}
        environment.pop("REPRO_REPORTS", None)
        command = [sys.executable, "-m", "repro.cli", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "pipesgd/fig4-mnist" in repro("list")
    assert "K: 3" in repro("show", "pipesgd/fig4-mnist", "strategy=pipe_sgd", "strategy.K=3")
    assert str(tmp_path / "results" / "pages" / "pipesgd.html") in repro("report", "pipesgd")
