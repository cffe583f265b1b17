"""Imports go one way: between rooms as `pyproject.toml` orders them, and between files in no circle."""

import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
from importlinter.cli import lint_imports

PROJECT = Path(__file__).parents[3]
CONFIG = PROJECT / "pyproject.toml"
SETTINGS = tomllib.loads(CONFIG.read_text())["tool"]["importlinter"]


def test_rooms_import_those_below_them(capsys):
    status = lint_imports(config_filename=str(CONFIG), no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_every_room_has_its_place():
    (contract,) = SETTINGS["contracts"]
    placed = {room for layer in contract["layers"] for room in layer.split(" | ")}
    found = {f"repro.{path.name}" for path in (PROJECT / "repro").iterdir() if (path / "__init__.py").is_file()}
    assert found | {"repro.cli", "strategies", "reports"} == placed
    loose = {path.name for path in (PROJECT / "repro").glob("*.py")}
    assert loose == {"__init__.py", "__main__.py", "cli.py"}


def test_no_files_import_each_other_in_a_circle():
    graph = grimp.build_graph(*SETTINGS["root_packages"], cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imported).prepare()  # CycleError names the files
