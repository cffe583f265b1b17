"""Which runs become stale when a file is edited, and the hash of code that says so."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import make_dataclass
from functools import partial
from pathlib import Path

import pytest
import torch

from repro.core.errors import InputError
from repro.experiment import code_digest, versions
from repro.experiment.code_digest import code_fingerprint, imported_modules, left_out
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.experiment.key import keyed_values, run_key
from repro.experiment.plugins import plugin_maker
from repro.experiment.versions import roots_of
from repro.records import provenance
from repro.strategies.dsync import DSync

# --- the code's hash follows imports, and changes exactly when code that the roots import changes


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A package `fakestrat` with a lazy registry, two strategies, a ring, and things that nobody imports."""
    files = {
        "__init__.py": "import importlib\ndef load(name):\n    return importlib.import_module('fakestrat.' + name)\n",
        "base.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fakestrat import typed\n",
        "typed.py": "T = 1\n",
        "dsync.py": "'''Doc.'''\nfrom .base import B\nfrom fakestrat.deep import ring\n",
        "pipe.py": "import fakestrat.base as b\ndef f():\n    from .deep.ring import reduce\n    from . import late\n",
        "late.py": "from repro.core.errors import InputError\nimport json\nfrom . import pipe\n",
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
    def names(root):
        return " ".join(name.removeprefix("fakestrat") or "/" for name in imported_modules([f"fakestrat.{root}"]))

    assert names("pipe") == "/ .base .deep.ring .late .pipe"
    assert names("dsync") == ".base .deep .deep.ring .dsync"
    assert not [name for name in sys.modules if name.startswith("fakestrat")]


def test_editing_a_strategy_touches_its_own_runs_and_the_ring_all_of_them(project):
    before = {name: code_fingerprint([f"fakestrat.{name}"]) for name in ("dsync", "pipe")}
    assert before["dsync"] != before["pipe"]
    edit(project / "pipe.py", "def f", "x = 1\ndef f")
    assert code_fingerprint(["fakestrat.dsync"]) == before["dsync"]
    assert code_fingerprint(["fakestrat.pipe"]) != before["pipe"]
    edit(project / "deep" / "ring.py", "return 1", "return 2")
    assert code_fingerprint(["fakestrat.dsync"]) != before["dsync"]


def test_comments_docstrings_and_layout_do_not_count(project):
    before = code_fingerprint(["fakestrat.dsync"])
    edit(project / "dsync.py", "'''Doc.'''", "'''Other words.'''\n\n# and a comment\n")
    edit(project / "deep" / "ring.py", "    '''Sums.'''\n    return 1  # one", "    return (1)")
    assert code_fingerprint(["fakestrat.dsync"]) == before


def test_a_move_changes_nothing_and_another_function_under_the_same_name_does(project):
    before = {name: code_fingerprint([f"fakestrat.{name}"]) for name in ("dsync", "pipe")}
    (project / "lower").mkdir()
    (project / "deep" / "ring.py").rename(project / "lower" / "circle.py")
    (project / "deep" / "__init__.py").rename(project / "lower" / "__init__.py")
    edit(project / "dsync.py", "from fakestrat.deep import ring", "from fakestrat.lower import circle as ring")
    edit(project / "pipe.py", "from .deep.ring import reduce", "from .lower.circle import reduce")
    assert {name: code_fingerprint([f"fakestrat.{name}"]) for name in before} == before
    edit(project / "pipe.py", "import reduce", "import B as reduce")
    assert (
        code_fingerprint(["fakestrat.pipe"]) != before["pipe"]
        and code_fingerprint(["fakestrat.dsync"]) == before["dsync"]
    )


def test_an_unknown_root_and_a_broken_module_are_named(project):
    with pytest.raises(InputError, match=r"fakestrat\.nothing"):
        code_fingerprint(["fakestrat.nothing"])
    with pytest.raises(InputError, match="no_such_package"):
        code_fingerprint(["no_such_package.x"])
    edit(project / "base.py", "T", "def (")
    with pytest.raises(InputError, match=r"base\.py:1: not Python"):
        code_fingerprint(["fakestrat.dsync"])


def test_what_only_shows_a_run_is_left_out():
    names = imported_modules(["repro.fabric.base"])
    assert "repro.fabric.base" in names and "repro.fabric.costs" in names
    assert "repro.core.errors" not in names and "repro.records.store" not in names


def test_a_run_key_depends_on_everything_but_the_order_of_keys():
    whole = ({"lr": 0.1, "strategy": {"name": "dsync", "K": 1}}, 0, {"training": 1}, "data", "2.13.0", "cpu")
    key = run_key(*whole)
    assert key == run_key({"strategy": {"K": 1, "name": "dsync"}, "lr": 0.1}, *whole[1:])
    changed = [({"lr": 0.2}, *whole[1:]), (whole[0], 1, *whole[2:])]
    others = {2: {"training": 2}, 3: "other", 4: "other", 5: "other"}
    changed += [(*whole[:place], other, *whole[place + 1 :]) for place, other in others.items()]
    assert len({key, *(run_key(*each) for each in changed)}) == 7


# --- which runs become stale when a file of each kind is edited: those whose numbers it can change, and no others


PROJECT = Path(__file__).parents[3]
FIG4 = "pipesgd/fig4-mnist"
# name -> an experiment and its overrides
RUNS = {
    "dsync": (FIG4, ["strategy=dsync", "testbed=virtual"]),
    "pipe_sgd": (FIG4, ["strategy=pipe_sgd", "testbed=virtual"]),
    "mpi": (FIG4, ["strategy=dsync", "testbed=here", "testbed.launcher=mpirun", "device=cpu"]),
    "gloo": (FIG4, ["strategy=dsync", "testbed=here", "testbed.launcher=torchrun", "device=cpu"]),
    "cifar": (FIG4, ["strategy=dsync", "testbed=virtual", "model=resnet20", "dataset=cifar10"]),
    "captions": (FIG4, ["strategy=dsync", "testbed=virtual", "model=s2vt", "dataset=msvd", "metric=meteor"]),
    "ring": ("pipesgd/fig3-ring", ["testbed=virtual"]),
}
TRAINED = {"dsync", "pipe_sgd", "mpi", "gloo", "cifar", "captions"}
# of each kind of file one: the runs whose numbers an edit can change
EDITS = {
    "repro/strategies/pipe_sgd.py": {"pipe_sgd"},
    "repro/strategies/gtopk.py": set(),
    "repro/rank/loop.py": TRAINED,
    "repro/training/optimizers.py": {*TRAINED, "ring"},
    "repro/training/evaluation/meteor.py": {"captions"},
    "repro/fabric/virtual/scheduler.py": {"dsync", "pipe_sgd", "cifar", "captions", "ring"},
    "repro/fabric/real/mpi.py": {"mpi"},
    "repro/fabric/real/torch_dist.py": {"gloo"},
    "repro/launch/local.py": {"mpi", "gloo"},
    "repro/models/resnet20.py": {"cifar"},
    "repro/data/sets/msvd.py": {"captions"},
    "repro/data/sets/mnist.py": {"dsync", "pipe_sgd", "mpi", "gloo", "ring"},
    "repro/probes/ring.py": {"ring"},
    # rooms that cannot change a number
    "repro/probes/lengths.py": set(),
    "repro/cli/main.py": set(),
    "repro/core/errors.py": set(),
    "repro/experiment/code_digest.py": set(),
    "repro/launch/slurm/submit.py": set(),
    "repro/records/store.py": set(),
    "repro/answers/claims/compute.py": set(),
}


@pytest.fixture(scope="module")
def roots():
    """Run -> the modules that its numbers come from."""
    return {name: roots_of(expand_runs(*arguments)[0].config) for name, arguments in RUNS.items()}


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the tree, whose code is hashed."""

    def source_file(name):
        place = tmp_path.joinpath(*name.split("."))
        return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)

    shutil.copytree(PROJECT / "repro", tmp_path / "repro", ignore=shutil.ignore_patterns("__pycache__", "out"))
    monkeypatch.setattr(code_digest, "source_file", source_file)
    return tmp_path


def test_an_edit_makes_the_runs_stale_whose_numbers_it_can_change(roots, copy):
    def codes():
        return {name: code_fingerprint(own) for name, own in roots.items()}

    before = codes()
    for file, stale in EDITS.items():
        text = (copy / file).read_text()
        (copy / file).write_text(f"{text}\n\nEDITED = True\n")
        assert {name for name, code in codes().items() if code != before[name]} == stale, file
        (copy / file).write_text(text)
    assert codes() == before


def test_no_key_changes_where_rooms_move(roots, copy):
    def moved(text):
        among = "|".join(rooms)
        renamed = partial(re.sub, rf"\b({among})\b", r"moved_\1 as \1")
        text = re.sub(r"(?<=from repro import ).*", lambda names: renamed(names[0]), text)
        return re.sub(rf"\brepro\.({among})\b", r"repro.moved_\1", text)

    before = {name: code_fingerprint(own) for name, own in roots.items()}
    packages = [path.name for path in (PROJECT / "repro").iterdir() if (path / "__init__.py").is_file()]
    rooms = [name for name in packages if not left_out(f"repro.{name}")]
    for room in rooms:
        (copy / "repro" / room).rename(copy / "repro" / f"moved_{room}")
    for path in (copy / "repro").rglob("*.py"):
        path.write_text(moved(path.read_text()))
    assert {name: code_fingerprint([moved(root) for root in own]) for name, own in roots.items()} == before


def key_on(overrides, monkeypatch, **machine):
    """The key of one run on a machine with that torch and hardware."""
    monkeypatch.setattr(torch, "__version__", machine["torch"])
    monkeypatch.setattr(provenance, "hardware", lambda *_: {"class": machine["hardware"]})
    (run,) = expand_runs(FIG4, ["strategy=dsync", "seeds=1", "dataset.standin=always", *overrides])
    identify_runs([run])
    return run.key


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        (["testbed=virtual", "testbed.arithmetic=none"], 1),
        (["testbed=virtual"], 3),
        (["testbed=emulated/pipesgd"], 3),  # no arithmetic, but a wall clock
    ],
    ids=str,
)
def test_torch_and_hardware_count_where_there_is_arithmetic_or_a_wall_clock(overrides, keys, monkeypatch):
    first, torch_2, other = (
        key_on(overrides, monkeypatch, torch=version, hardware=kind)
        for version, kind in (("2.6", "cpu-2core"), ("2.7", "cpu-2core"), ("2.6", "gpu-1x"))
    )
    assert len({first, torch_2, other}) == keys


def key_of(monkeypatch, *overrides):
    (run,) = expand_runs(FIG4, ["testbed=virtual", "seeds=1", "dataset.standin=always", *overrides])
    identify_runs([run])
    return run.key, run.edited


def test_a_key_has_versions_and_no_digest_of_code(monkeypatch):
    before, _ = key_of(monkeypatch, "strategy=dsync")
    other = {part: entry.model_copy(update={"digest": "other"}) for part, entry in versions.read_lock().items()}
    monkeypatch.setattr(versions, "read_lock", lambda: other)
    key, edited = key_of(monkeypatch, "strategy=dsync")
    assert key == before and {"strategy/dsync", "training", "fabric/virtual"} <= set(edited)
    raised = other | {"strategy/dsync": versions.Locked(version=2, digest="other")}
    monkeypatch.setattr(versions, "read_lock", lambda: raised)
    assert key_of(monkeypatch, "strategy=dsync")[0] != before


def test_a_users_own_file_counts_by_its_digest(tmp_path, monkeypatch):
    place, keys = tmp_path / "mine.py", []
    for factor in (1, 2):
        place.write_text(f"from repro.strategies.dsync import DSync\n\nclass Mine(DSync):\n    factor = {factor}\n")
        os.utime(place, ns=(factor, factor))
        keys.append(key_of(monkeypatch, f"strategy={place}:Mine")[0])
    assert keys[0] != keys[1]


def test_an_option_that_comes_later_changes_no_key_at_its_default(monkeypatch):
    config = expand_runs(FIG4, ["strategy=dsync", "testbed=virtual"])[0].config
    before = keyed_values(config)
    later = make_dataclass("Later", [("fresh", int, 7)], bases=(DSync.Options,))
    monkeypatch.setattr(DSync, "Options", later)
    same, other = (
        config.model_copy(update={"strategy": plugin_maker("strategy")({"name": "dsync", "fresh": fresh})})
        for fresh in (7, 8)
    )
    assert keyed_values(same) == before != keyed_values(other)
