"""`repro new`: each skeleton passes its own tests, and nothing is overwritten."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from repro.cli import new
from repro.cli.main import main
from tests.support import cli, foreign_package
from tests.support.waiting import LIMIT_S

PROJECT = Path(__file__).resolve().parents[3]


def test_every_skeleton_passes_its_own_tests(tmp_path):
    made = []
    for kind in new.KINDS:
        made.append(tmp_path / f"own_{kind}")
        assert main(["new", kind, made[-1].name, "--out", str(made[-1])]) == 0
        if (made[-1] / "pyproject.toml").is_file():
            foreign_package.register(made[-1])
    path = os.pathsep.join(map(str, [*made, PROJECT]))
    surroundings = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    own = ["-q", "-rA", "-p", "no:cacheprovider", "."]
    done = cli.forked("pytest", *own, environment=surroundings, folder=tmp_path)
    passed = {name for name in re.findall(r"^PASSED (own_\w+)/", done.stdout, re.MULTILINE)}
    assert done.returncode == 0 and passed == {f"own_{kind}" for kind in new.KINDS}, done.stdout


def test_only_whole_words_stand_for_the_name(tmp_path):
    assert main(["new", "dataset", "mine", "--out", str(tmp_path)]) == 0
    assert "\nCLASSES, SHAPE = " in (tmp_path / "mine.py").read_text()


@pytest.mark.parametrize("kind", [kind for kind in new.KINDS if (new.SKELETONS / kind / "pyproject.toml").is_file()])
def test_what_pip_installs_in_place_is_found_beside_its_folder(tmp_path, monkeypatch, kind):
    """As `pip install -e mine` and then `repro run ... strategy=mine` where `mine/` lies."""
    monkeypatch.chdir(tmp_path)
    assert main(["new", kind, "mine"]) == 0
    build = "from setuptools import build_meta; print(build_meta.build_editable('..'))"
    done = subprocess.run([sys.executable, "-c", build], cwd="mine", capture_output=True, text=True, timeout=LIMIT_S)
    zipfile.ZipFile(tmp_path / done.stdout.split()[-1]).extractall("site")
    use = "import site; site.addsitedir('site'); import mine; print(mine.__file__)"
    done = subprocess.run([sys.executable, "-c", use], capture_output=True, text=True, timeout=LIMIT_S)
    assert Path(done.stdout.strip()).suffix == ".py", done.stderr


@pytest.mark.parametrize(
    ("kind", "name"),
    [("strategy", "dsync"), ("paper", "pipesgd"), ("model", "json"), ("dataset", "My-Data"), ("experiment", "class")],
)
def test_a_name_that_is_taken_or_none_writes_nothing(tmp_path, monkeypatch, capsys, kind, name):
    monkeypatch.chdir(tmp_path)
    assert main(["new", kind, name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert name in line and not list(tmp_path.iterdir())


def test_what_is_there_stays(tmp_path, capsys):
    (tmp_path / "test_mine.py").write_text("kept")
    assert main(["new", "strategy", "mine", "--out", str(tmp_path)]) == 2
    assert "test_mine.py: exists" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]


SPOILT = [
    ("experiment/mine/table1.yaml", "codec=truncate16", "codec=truncate17", "must be none, truncate16"),
    ("testbed/paper/mine.yaml", "alpha_s: 5.0e-5", "alpha: 5.0e-5", "nearest: testbed.alpha_s"),
    ("reports/mine/claims.yaml", "verb: speedup", "verb: spedup", "must be value, best, ratio, speedup"),
    ("reports/mine/figures.yaml", "kind: bar", "kind: bars", "must be bar, dot"),
]


@pytest.mark.parametrize("options", [(), ("--draws", "4")], ids=["runs", "draws"])
@pytest.mark.parametrize(("name", "right", "wrong", "allowed"), SPOILT, ids=[case[0] for case in SPOILT])
def test_what_is_wrong_in_a_paper_s_files_is_told_before_its_runs(
    tmp_path, monkeypatch, capsys, name, right, wrong, allowed, options
):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    assert main(["new", "paper", "mine"]) == 0
    file = Path("mine/mine", name)
    text = file.read_text()
    assert right in text
    file.write_text(text.replace(right, wrong))
    assert main(["run", "mine", "--config-dir", "mine/mine", "--no-mlflow", *options]) == 2
    assert allowed in capsys.readouterr().err.splitlines()[-1]
    assert not [*tmp_path.glob("results/mine/*/*")]
