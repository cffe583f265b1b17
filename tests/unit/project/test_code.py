"""What holds of the project's code: imports, types, what is only read, and how tests wait."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

from repro.answers.pages import build as pages_build
from repro.answers.pages.build import build
from repro.answers.site import build as site_build
from repro.answers.site.build import Site
from repro.cli.main import main
from repro.core.errors import InputError
from repro.core.paths import PROJECT, reference_root, reports_root
from repro.launch.runner import check_results_folder
from tests.support.waiting import LIMIT_S, wait_until

# --- imports go one way: between rooms as `pyproject.toml` orders them, and between files in no circle


CONFIG = PROJECT / "pyproject.toml"
SETTINGS = tomllib.loads(CONFIG.read_text())["tool"]["importlinter"]


def test_rooms_import_those_below_them(capsys):
    status = lint_imports(config_filename=str(CONFIG), no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_every_room_has_its_place():
    contract = SETTINGS["contracts"][0]
    placed = {room for layer in contract["layers"] for room in layer.split(" | ")}
    rooms = {f"repro.{path.name}" for path in (PROJECT / "repro").iterdir() if (path / "__init__.py").is_file()}
    assert rooms == placed
    loose = {path.name for path in (PROJECT / "repro").glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}


def test_no_files_import_each_other_in_a_circle():
    graph = grimp.build_graph(*SETTINGS["root_packages"], cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imported).prepare()  # CycleError names the files


def test_lines_of_configurations_fit_a_screen():
    files = (PROJECT / "paper_configs").rglob("*.yaml")
    lines = ((file, n, line) for file in files for n, line in enumerate(file.read_text().splitlines(), start=1))
    assert [f"{file}:{n}" for file, n, line in lines if len(line) > 160] == []


# --- what the tests stand on: waiting that does not depend on the machine's speed, and Ctrl-C for what they start


def test_waiting_ends_with_what_was_waited_for():
    turns = iter([0, [], "found"])
    assert wait_until(lambda: next(turns), "a word") == "found"


def test_waiting_ends_where_it_cannot_come_any_more():
    turns = iter([False, True])
    with pytest.raises(AssertionError, match="a word: it did not come before the end"):
        wait_until(lambda: False, "a word", over=lambda: next(turns))


@pytest.mark.parametrize(("name", "words"), [("INT", "KeyboardInterrupt"), ("HUP", "")])
def test_tests_in_the_background_of_a_shell_can_end_commands_by_signals(name, words):
    """Such a shell has SIGINT ignored, nohup SIGHUP, and all children inherit that: commands would never end."""
    sign = signal.Signals[f"SIG{name}"]
    code = f"import tests.conftest, os; os.kill(os.getpid(), {int(sign)}); print('ignored')"
    shell = ["sh", "-c", f"trap '' {name}; exec \"$@\"", "sh", sys.executable, "-c", code]
    done = subprocess.run(shell, cwd=Path(__file__).resolve().parents[3], capture_output=True, text=True)
    assert not done.stdout and words in done.stderr and done.returncode == -sign, done


# --- what is committed is only read: runs and pages go to the workspace, and a page touches nothing but its own


OVERRIDES = ["strategy=dsync", "testbed=virtual", "dataset.standin=always", "workers=2", "batch=40", "epochs=0.2"]
TOKENS = ("REPRO_RESULTS", "REPRO_REPORTS", "MLFLOW_TRACKING_URI")


def git(*arguments: str | Path) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout


def below(*folders: Path) -> dict[Path, tuple[int, int]]:
    """Every file below the folders but Python's caches, with its time and size."""
    files = [
        path for folder in folders for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__"
    ]
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


@pytest.mark.skipif(not (PROJECT / ".git").exists(), reason="not a checkout")
def test_a_run_in_a_fresh_clone_leaves_git_clean(tmp_path):
    clone = tmp_path / "clone"
    git("clone", "-q", PROJECT, clone)
    environment = {name: value for name, value in os.environ.items() if name not in TOKENS}
    environment |= {"PYTHONPATH": str(clone)}
    for arguments in (["run", "baselines/side-by-side", *OVERRIDES, "--no-report"], ["report", "baselines"]):
        command = [sys.executable, "-m", "repro", *arguments]
        done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
    assert len(list(clone.glob("results/baselines/side-by-side/*/summary.json"))) == 1
    pages = clone / "results" / "pages"
    assert {path.name for path in pages.glob("*.*")} == {".built", ".site", "baselines.md", "index.md"}
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
    lines = []
    written = build("baselines", say=lines.append)
    assert lines == ["building the page of baselines ..."]
    assert all(path.is_relative_to(tmp_path / "empty" / "pages") for path in written)
    files = {path for path in reports_root().rglob("*") if path.is_file() and ".built" not in path.parts}
    assert files == {*written, *(reports_root() / name for name in others)}
    assert all((reports_root() / name).read_text() == "as it was" for name in others)
    assert below(PROJECT / "results" / "reference", PROJECT / "reports") == committed


def test_out_comes_before_the_variable(tmp_path, monkeypatch, capsys):
    built = []
    monkeypatch.setenv("REPRO_REPORTS", str(tmp_path / "variable"))
    monkeypatch.setattr(pages_build, "build", lambda paper, out, **_: built.append((paper, out)) or [])
    monkeypatch.setattr(
        site_build, "build_html_site", lambda out: built.append(out) or Site(out / "site" / "index.html", [])
    )
    assert main(["report", "baselines", "--out", str(tmp_path / "out")]) == 0
    assert built == [("baselines", tmp_path / "out"), tmp_path / "out"]
    site = tmp_path / "out" / "site"
    assert capsys.readouterr().out.split() == [str(site / f"{name}.html") for name in ("index", "baselines")]


def test_the_committed_results_are_no_workspace(monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(reference_root()))
    with pytest.raises(InputError, match="committed results, only read"):
        check_results_folder()
