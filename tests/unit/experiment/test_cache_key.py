"""The code's hash follows imports, and changes exactly when code that the roots import changes."""

import os
import subprocess
import sys

import pytest

from repro.common.errors import InputError
from repro.experiment.cache_key import fingerprint, modules, run_key


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A package `fakestrat` with a lazy registry, two strategies, a ring, and things that nobody imports."""
    files = {
        "__init__.py": "import importlib\ndef load(name):\n    return importlib.import_module('fakestrat.' + name)\n",
        "base.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fakestrat import typed\n",
        "typed.py": "T = 1\n",
        "dsync.py": "'''Doc.'''\nfrom .base import B\nfrom fakestrat.deep import ring\n",
        "pipe.py": "import fakestrat.base as b\ndef f():\n    from .deep.ring import reduce\n    from . import late\n",
        "late.py": "from repro.common.errors import InputError\nimport json\nfrom . import pipe\n",
        "deep/__init__.py": "",
        "deep/ring.py": "from ..base import B\ndef reduce():\n    '''Sums.'''\n    return 1  # one\n",
    }
    root = tmp_path / "fakestrat"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return root


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(path.stat().st_mtime_ns + 10**6,) * 2)


def test_imports_of_every_form_are_followed_and_nothing_is_imported(project):
    def found(root):
        return " ".join(name.removeprefix("fakestrat") or "/" for name in modules([f"fakestrat.{root}"]))

    assert found("pipe") == "/ .base .deep.ring .late .pipe"
    assert found("dsync") == ".base .deep .deep.ring .dsync"
    assert not [name for name in sys.modules if name.startswith("fakestrat")]


def test_the_registry_does_not_pull_in_every_strategy(project):
    assert modules(["fakestrat"]) == ["fakestrat"]


def test_editing_a_strategy_touches_its_own_runs_and_the_ring_all_of_them(project):
    before = {name: fingerprint([f"fakestrat.{name}"]) for name in ("dsync", "pipe")}
    assert before["dsync"] != before["pipe"]
    edit(project / "pipe.py", "def f", "x = 1\ndef f")
    assert fingerprint(["fakestrat.dsync"]) == before["dsync"]
    assert fingerprint(["fakestrat.pipe"]) != before["pipe"]
    edit(project / "deep" / "ring.py", "return 1", "return 2")
    assert fingerprint(["fakestrat.dsync"]) != before["dsync"]


def test_comments_docstrings_and_layout_do_not_count(project):
    before = fingerprint(["fakestrat.dsync"])
    edit(project / "dsync.py", "'''Doc.'''", "'''Other words.'''\n\n# and a comment\n")
    edit(project / "deep" / "ring.py", "    '''Sums.'''\n    return 1  # one", "    return (1)")
    assert fingerprint(["fakestrat.dsync"]) == before


def test_an_unknown_root_and_a_broken_module_are_named(project):
    with pytest.raises(InputError, match=r"fakestrat\.nothing"):
        fingerprint(["fakestrat.nothing"])
    with pytest.raises(InputError, match="no_such_package"):
        fingerprint(["no_such_package.x"])
    edit(project / "base.py", "T", "def (")
    with pytest.raises(InputError, match=r"base\.py:1: not Python"):
        fingerprint(["fakestrat.dsync"])


def test_what_only_shows_a_run_is_left_out():
    found = modules(["repro.fabric.base"])
    assert "repro.fabric.base" in found and "repro.timing.costs" in found
    assert "repro.common.errors" not in found and "repro.records.store" not in found


def test_fingerprints_agree_between_processes():
    code = "from repro.experiment.cache_key import fingerprint; print(fingerprint(['repro.fabric.base']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fingerprint(["repro.fabric.base"])


def test_a_run_key_depends_on_everything_but_the_order_of_keys():
    whole = ({"lr": 0.1, "strategy": {"name": "dsync", "K": 1}}, 0, "code", "data", "2.13.0", "cpu")
    key = run_key(*whole)
    assert key == run_key({"strategy": {"K": 1, "name": "dsync"}, "lr": 0.1}, *whole[1:])
    changed = [({"lr": 0.2}, *whole[1:]), (whole[0], 1, *whole[2:])]
    changed += [(*whole[:place], "other", *whole[place + 1 :]) for place in range(2, 6)]
    assert len({key, *(run_key(*each) for each in changed)}) == 7
