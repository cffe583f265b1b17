"""Plugins: ours by their files, those of installed packages by entry points, each with its defaults where no file lists
its options."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from repro import data, models, strategies
from repro.algorithms import imbalance
from repro.cli.main import main
from repro.core import own_code, registry
from repro.core.errors import InputError
from repro.core.registry import PLUGINS
from repro.experiment import config, files
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.experiment.versions import roots_of
from repro.fabric.virtual import fabric as virtual
from repro.launch import plan_process
from repro.rank import programs
from repro.testing import real, small
from tests.support import foreign_package
from tests.support.records import read_summary

PROJECT = Path(__file__).resolve().parents[3]
FIG4 = "pipesgd/fig4-mnist"
REGRESSION = ["metric=mse", "targets=[]", "batch=16"]


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """An installed package of somebody else's."""
    foreign_package.as_installed(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "foreign_plugins"]:
        del sys.modules[name]


def test_an_installed_package_is_listed(foreign, capsys):
    main(["list", "--json"])
    listed = json.loads(capsys.readouterr().out)
    for group, name in foreign_package.NAMES.items():
        assert name in listed["strategies" if group == "strategy" else f"{group}s"]
        assert name in PLUGINS[group].names() and PLUGINS[group].module_of(name).startswith("foreign_plugins.")
    assert "foreign_points" in [row["name"] for row in data.dataset_status()]


def test_its_options_start_at_their_defaults_and_can_be_set(foreign):
    composed = config.compose(FIG4, foreign_package.CHOSEN)
    assert composed["strategy"] == {"name": "foreign_wire", "wire": "float32"}
    assert composed["model"] == {"name": "foreign_line", "scale": 1.0}
    assert composed["dataset"] == {"name": "foreign_points", "standin": "auto", "width": None}
    assert composed["imbalance"] == {"name": "foreign_late", "delay_s": 0.01}
    changed = config.compose(FIG4, [*foreign_package.CHOSEN, "strategy.wire=bfloat16", "dataset.width=4"])
    assert changed["strategy"]["wire"] == "bfloat16" and changed["dataset"]["width"] == 4
    with pytest.raises(InputError, match=r"unknown option 'strategy.wires'.*strategy.wire"):
        config.compose(FIG4, ["strategy=foreign_wire", "strategy.wires=bfloat16"])


def test_it_runs_as_ours_do(foreign):
    dsync, mine = (small.run(name, workers=3).weights[0] for name in ("dsync", "foreign_wire"))
    torch.testing.assert_close(mine, dsync)
    planned = expand_runs(FIG4, [*foreign_package.CHOSEN, *REGRESSION, "testbed=paper/pipesgd"])
    identify_runs(planned)
    (run,) = planned
    roots = roots_of(run.config)
    assert {f"foreign_plugins.{name}" for name in ("wire", "line", "points", "late")} <= set(roots)
    dataset = data.dataset_for(run.config)
    assert dataset.input_shape == (8,) and models.model_for(run.config, dataset)[0].weight.mean() == 1
    assert imbalance.imbalance_for(run.config).delays(0) == [0.01] * 4


ONE = "nn.Sequential(OrderedDict(line=linear))"


@pytest.mark.parametrize(
    ("built", "words"),
    [
        ("nn.Sequential(OrderedDict(line=nn.LazyLinear(classes)))", r"model foreign_line: line\.weight has no shape"),
        ("nn.LazyLinear(classes)", r"model foreign_line: weight has no shape"),
        ("5", "model foreign_line: build must return an nn.Module; it returned a value of type int"),
        ("linear.nothing", r"model foreign_line: its build ended with .*line\.py:\d+: AttributeError"),
    ],
)
def test_a_build_that_gives_no_model_is_one_line(foreign, built, words):
    spoil_line(foreign, built)
    planned = expand_runs(FIG4, [*foreign_package.CHOSEN, *REGRESSION, "testbed=virtual"])
    with pytest.raises(InputError, match=words):
        identify_runs(planned)


def test_a_module_that_is_no_sequence_is_trained_as_one_block(foreign):
    spoil_line(foreign, "linear")
    small_run = ["workers=2", "epochs=3", "testbed=virtual", "imbalance=none"]
    (planned,) = expand_runs(FIG4, [*foreign_package.CHOSEN, *REGRESSION, *small_run])
    assert [
        name for name, _ in models.model_for(planned.config, data.dataset_for(planned.config)).named_children()
    ] == ["model"]
    config = planned.config.model_copy(update={"key": "k", "hardware": {"class": "none"}})
    virtual.run(2, lambda fabric: programs.run_program(fabric, config, foreign / "run"), small.NETWORK, small.COSTS)
    first, *_, last = read_summary(foreign / "run")["curve"]
    assert last["test_loss"] < first["test_loss"]


def spoil_line(foreign, built):
    """Another `build` in the package, which nobody has called yet."""
    models._on_meta.cache_clear()
    (foreign / "foreign_plugins" / "line.py").write_text(foreign_package.LINE.replace(ONE, built))


def test_its_code_is_in_the_key(foreign):
    def key() -> str:
        (run,) = planned = expand_runs(FIG4, ["strategy=foreign_wire", "testbed=paper/pipesgd"])
        identify_runs(planned)
        return run.key

    before = key()
    path = foreign / "foreign_plugins" / "wire.py"
    path.write_text(path.read_text().replace("self.worker.fabric", "self.worker.fabric  # the same"))
    assert key() == before
    path.write_text(path.read_text().replace("sum(0)", "sum(dim=0)"))
    assert key() != before


def test_one_that_cannot_be_imported_disturbs_nobody_else(tmp_path, monkeypatch, capsys):
    foreign_package.as_installed(tmp_path, "[repro.strategies]\nforeign_gone = foreign_gone.wire:Gone\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert config.compose(FIG4, ["strategy=dsync"])["strategy"]["name"] == "dsync"
    assert not capsys.readouterr().err
    assert main(["show", FIG4, "strategy=foreign_gone"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "strategy foreign_gone: cannot import foreign_gone.wire" in lines[0]


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ('name, Options = "foreign_wire", Options', 'name, Options = "wire", Options', "ForeignWire (name = 'wire')"),
        ("def exchange", "def exchnge", "ForeignWire in"),
    ],
)
def test_a_class_under_another_name_or_not_whole_is_one_line(foreign, was, now, words):
    """What is wrong with it is said before anything starts, and no list of names that has its own."""
    path = foreign / "foreign_plugins" / "wire.py"
    path.write_text(path.read_text().replace(was, now))
    with pytest.raises(InputError, match="strategy foreign_wire: ") as refusal:
        PLUGINS["strategy"].load("foreign_wire")
    assert words in str(refusal.value) and str(path) in str(refusal.value) and "dsync" not in str(refusal.value)


BROKEN = {  # file -> what is in it, where the line points
    "wire.py": ("import torch\n\ndef f(:\n", "wire.py:3: SyntaxError"),
    "line.py": ('x = 1\nraise RuntimeError("no\\nway")\n', "line.py:2: RuntimeError: no way"),
    "points.py": ("KIND = 'images'\n", "foreign_plugins.points does not declare its options"),
    "late.py": ("import foreign_plugins.helper\n", "helper.py:1: SystemExit: 3"),
}


@pytest.fixture
def broken(foreign):
    """The same package, nothing of which can be used."""
    (foreign / "foreign_plugins" / "helper.py").write_text("raise SystemExit(3)\n")
    for name, (text, _) in BROKEN.items():
        (foreign / "foreign_plugins" / name).write_text(text)


@pytest.mark.usefixtures("broken")
def test_one_that_cannot_be_used_says_nothing_where_it_is_not_chosen(capsys):
    for arguments in (["show", FIG4], ["run", FIG4, "testbed=virtual", "--dry-run"]):
        assert main(arguments) == 0
        assert "warning: " not in capsys.readouterr().err
    assert main(["list"]) == 0 and not capsys.readouterr().err
    assert main(["data", "list"]) == 0
    assert "foreign_points" in capsys.readouterr().err


@pytest.mark.usefixtures("broken")
def test_who_chooses_it_fails_with_one_line(capsys):
    for chosen, (_, words) in zip(foreign_package.CHOSEN, BROKEN.values(), strict=True):
        assert main(["run", FIG4, chosen, "testbed=virtual", "--dry-run"]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("repro: error: ")]
        assert words in line, line


def test_an_exception_while_runs_are_planned_is_a_line_of_the_answer(foreign, monkeypatch, capsys):
    with (foreign / "foreign_plugins" / "wire.py").open("a") as file:
        file.write("\n    @classmethod\n    def check(cls, options, run):\n        raise KeyError('a key of mine')\n")
    monkeypatch.setattr(plan_process, "FileAccesses", lambda: None)
    monkeypatch.setattr(sys, "stderr", sys.stderr)  # as it was, after the test
    asked = {"names": [FIG4], "overrides": ["strategy=foreign_wire", "testbed=virtual"], "scale": "quick"}
    answer = plan_process.answer_request(asked | dict.fromkeys(("fetch", "together"), False) | {"draws": 0})
    assert answer["error"] == "FaultError" and re.search(r"wire\.py:\d+: KeyError: 'a key of mine'", answer["message"])


@pytest.mark.usefixtures("broken")
def test_the_conformance_tests_of_others_are_there(capsys):
    names = [parameter.values[0] for parameter in real.strategy_names()]
    assert {"dsync", "foreign_wire"} <= {*names} and "wire.py:3" in capsys.readouterr().err
    assert "foreign_line" not in PLUGINS["model"].usable()


def test_a_misspelt_name_in_a_users_file_is_compared_with_the_names_that_it_defines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_two_nets.py").write_text("from pathlib import Path as Nett\n\nclass Net: ...\n")
    with pytest.raises(InputError, match=r"'Nets'; valid: Net$"):
        own_code.admit_plugin("./my_two_nets.py:Nets")  # before it is imported
    (tmp_path / "my_star_nets.py").write_text("from string import *\n\nclass Net: ...\n")
    own_code.admit_plugin("./my_star_nets.py:Nets")
    with pytest.raises(InputError, match=r"'Nets'; valid: Net$"):
        own_code.load_plugin("./my_star_nets.py:Nets")


def test_a_required_option_is_named_with_its_plugin():
    @dataclass
    class Options:
        period: int

    with pytest.raises(InputError, match=r"^strategy\.period: is missing; strategy local requires it$"):
        registry.parse_options("strategy", "local", Options, {}, "strategy")


def test_a_strategy_of_ours_needs_no_file_of_its_options(tmp_path, monkeypatch):
    (tmp_path / "short_wire.py").write_text(foreign_package.example().replace("foreign_wire", "short_wire"))
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path)])
    assert "short_wire" in config.group_names("strategy")
    assert config.compose(FIG4, ["strategy=short_wire"])["strategy"] == {"name": "short_wire", "wire": "float32"}
    monkeypatch.delitem(sys.modules, "repro.strategies.short_wire")


@pytest.mark.parametrize("group", ["strategy", "model", "imbalance"])
def test_the_files_of_ours_have_the_defaults(group):
    for name in PLUGINS[group].names():
        listed = files.group_file(group, name)
        defaults = {"name": name} | PLUGINS[group].defaults(name)
        assert listed == {key: list(value) if isinstance(value, tuple) else value for key, value in defaults.items()}
