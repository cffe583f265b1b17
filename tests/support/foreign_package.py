"""Another package with a plugin of each kind, and no file in `paper_configs/`."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest

ENTRY_POINTS = """
[repro.strategies]
foreign_wire = "foreign_plugins.wire:ForeignWire"
[repro.models]
foreign_line = "foreign_plugins.line"
[repro.datasets]
foreign_points = "foreign_plugins.points"
[repro.imbalances]
foreign_late = "foreign_plugins.late:ForeignLate"
"""
NAMES = {"strategy": "foreign_wire", "model": "foreign_line", "dataset": "foreign_points", "imbalance": "foreign_late"}
CHOSEN = [f"{group}={name}" for group, name in NAMES.items()]
LINE = """
from collections import OrderedDict
from torch import nn

TAKES = "vectors"

def build(input_shape, classes, *, scale=1.0):
    linear = nn.Linear(input_shape[0], classes)
    nn.init.constant_(linear.weight, scale)
    return nn.Sequential(OrderedDict(line=linear))
"""
POINTS = """
from repro.data.sets.hyperplane import FILES, GENERATED, KIND, MIRRORS, STANDIN, TASK, find
from repro.data.sets import hyperplane

OPTIONS = ("width",)

def load(root=None, standin="auto", width=8):
    return hyperplane.load(root, standin, dimensions=width, samples=64, test_samples=16)

def timing(root=None, width=8):
    return hyperplane.timing(root, dimensions=width, samples=64, test_samples=16)
"""
LATE = """
from dataclasses import dataclass
from repro.algorithms.imbalance.base import Imbalance

@dataclass
class Options:
    delay_s: float = 0.01

class ForeignLate(Imbalance):
    name, Options = "foreign_late", Options

    @property
    def longest(self):
        return self.options.delay_s

    def delays(self, iteration):
        return [self.longest] * self.workers
"""


def example() -> str:
    """The source of the strategy in the documentation."""
    project = Path(__file__).parents[2]
    for page in (project / "README.md", *sorted((project / "docs").rglob("*.md"))):
        if match := re.search(r"```python\n# strategies/short_wire\.py\n(.*?)```", page.read_text(), re.DOTALL):
            return match[1].replace("ShortWire", "ForeignWire").replace("short_wire", "foreign_wire")
    raise LookupError("no page shows strategies/short_wire.py")


def write(folder: Path) -> None:
    """The package `foreign_plugins` into a folder."""
    modules = {"__init__": "", "wire": example(), "line": LINE, "points": POINTS, "late": LATE}
    (folder / "foreign_plugins").mkdir(parents=True)
    for name, text in modules.items():
        (folder / "foreign_plugins" / f"{name}.py").write_text(text)


def as_installed(folder: Path, entry_points: str = ENTRY_POINTS) -> None:
    """The package as installed: importable from the folder, with its entry points."""
    write(folder)
    info = folder / "foreign_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign-plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points.replace('"', ""))


def install_copy(project: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as installed in place, from a copy below a folder, which is returned."""
    shutil.copytree(project, folder, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    register(folder)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def register(project: Path) -> None:
    """Write the metadata of a project that is installed in place: its entry points."""
    own = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    info = project / f"{own['name'].replace('-', '_')}-{own['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {own['name']}\nVersion: {own['version']}\n")
    groups = own.get("entry-points", {}).items()
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items()) for group, points in groups
    ]
    (info / "entry_points.txt").write_text("".join(lines))
