"""What is committed is only read: runs and pages go to the workspace, and a page touches nothing but its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from repro.common.errors import InputError
from repro.common.paths import PROJECT, reference_root, reports_root
from repro.launch.runner import check_results_folder
from repro.reports.build import build
from tests.support.waiting import LIMIT_S

OVERRIDES = ["strategy=dsync", "testbed=virtual", "dataset.standin=always", "workers=2", "batch=40", "epochs=0.2"]
TOKENS = ("REPRO_RESULTS", "REPRO_REPORTS", "MLFLOW_TRACKING_URI")


def git(*arguments: str | Path) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout


def below(*folders: Path) -> dict[Path, tuple[int, int]]:
    """Every file below the folders, with its time and size."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="not a checkout")
def test_a_run_in_a_fresh_clone_leaves_git_clean(tmp_path):
    clone = tmp_path / "clone"
    git("clone", "-q", PROJECT, clone)
    environment = {name: value for name, value in os.environ.items() if name not in TOKENS}
    environment |= {"PYTHONPATH": str(clone)}
    command = [sys.executable, "-m", "repro.cli", "run", "baselines/side-by-side", *OVERRIDES]
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert len(list(clone.glob("results/baselines/side-by-side/*/summary.json"))) == 1
    assert "building the page of baselines ..." in done.stderr
    pages = clone / "results" / "pages"
    assert sorted(path.name for path in pages.glob("*.*")) == [".built", ".site", "baselines.md"]
    assert (pages / "site" / "index.html").is_file() and (pages / "site" / "docs" / "start.html").is_file()
    text = (pages / "baselines.md").read_text()
    assert re.search(r"\| +reference +\|", text) and re.search(r"\| +workspace +\|", text)
    assert git("-C", clone, "status", "--porcelain") == ""


def test_a_page_s_build_leaves_all_other_files_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "empty"))
    monkeypatch.delenv("REPRO_REPORTS", raising=False)
    others = ("pipesgd.md", "index.md", "figures/pipesgd/gone.png", "tables/gtopk/old.tex", "figures/own.png")
    for name in others:
        path = reports_root() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was")
    committed = below(PROJECT / "results" / "reference", PROJECT / "reports")
    said = []
    written = build("baselines", say=said.append)
    assert said == ["building the page of baselines ..."]
    assert all(path.is_relative_to(tmp_path / "empty" / "pages") for path in written)
    found = {
        p for p in reports_root().rglob("*") if p.is_file() and ".built" not in p.parts
    }  # what each page was built of
    assert found == {*written, *(reports_root() / name for name in others)}
    assert all((reports_root() / name).read_text() == "as it was" for name in others)
    assert below(PROJECT / "results" / "reference", PROJECT / "reports") == committed


def test_out_comes_before_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "empty"))
    monkeypatch.setenv("REPRO_REPORTS", str(tmp_path / "variable"))
    command = [sys.executable, "-m", "repro.cli", "report", "baselines", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.split() == [str(tmp_path / "out" / "site" / f"{name}.html") for name in ("index", "baselines")]
    assert (tmp_path / "out" / "baselines.md").is_file() and not (tmp_path / "variable").exists()


def test_the_committed_results_are_no_workspace(monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(reference_root()))
    with pytest.raises(InputError, match="committed results, only read"):
        check_results_folder()
