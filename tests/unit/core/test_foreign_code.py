"""Code that only an experiment's file or a run's folder names is not imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from repro.cli.main import main
from repro.core import config_folders
from repro.core.errors import InputError
from repro.experiment import config, files
from repro.experiment.expand import expand_runs
from repro.experiment.launched import launch_digest, read_config
from tests.support.own_files import FIG4, WAYS, planned

EVIL = "from pathlib import Path\nPath('imported').touch()\n"
FILE = {
    "defaults": [{"override /model": "mnist_mlp"}, {"override /dataset": "mnist"}],
    **{"paper": "mine", "experiment": "table", "title": "from somebody else", "workers": 2, "batch": 100},
    "optimizer": {"lr": 0.1},
    "testbeds": {"virtual": []},
    "scales": {"quick": ["epochs=1"], "full": ["epochs=5"]},
}
DATA = ("dataset=./mine.npz", "batch=20")
SETTING = "strategy=./evil.py:Evil"
PLACES = {
    "grid": {"grid": {"method": {"A": [SETTING]}}},
    "a factor": {"grid": {"strategy": ["./evil.py:Evil"]}},
    "a module": {"grid": {"method": {"A": ["strategy=evil:Evil"]}}},
    "a model": {"grid": {"method": {"A": ["model=./evil.py:Evil"]}}},
    "testbeds": {"testbeds": {"virtual": [SETTING]}},
    "scales": {"scales": {"quick": [SETTING], "full": []}},
    "its own entry": {"strategy": {"name": "./evil.py:Evil"}},
}


@pytest.mark.parametrize("place", PLACES)
def test_showing_an_experiment_s_file_imports_no_code_that_it_names(mine, capsys, place):
    (mine / "evil.py").write_text(EVIL)
    (mine / "table.yaml").write_text("# @package _global_\n" + yaml.safe_dump(FILE | PLACES[place]))
    assert main(["show", "table.yaml"]) == 2
    assert not (mine / "imported").exists()
    assert "this command did not name" in capsys.readouterr().err


@pytest.mark.parametrize(("experiment", "override"), [
    (FIG4, "+grid.method.Mine=['strategy=./my_ways.py:Mine']"),
    (FIG4, "+grid.method={Mine: ['epochs=1', 'strategy=./my_ways.py:Mine']}"),
    ("./table.yaml", "+grid.strategy=[./my_ways.py:Mine]"),
    ("./table.yaml", "testbeds={virtual: ['strategy=./my_ways.py:Mine']}"),
])  # fmt: skip
def test_overrides_inside_an_override_may_name_the_user_s_own_code(mine, monkeypatch, experiment, override):
    monkeypatch.setenv(config_folders.VARIABLE, "")
    (mine / "table.yaml").write_text("# @package _global_\n" + yaml.safe_dump(FILE))
    (name,) = config.experiment_names(experiment)
    runs = expand_runs(name, [override, "testbed=virtual"], "quick")
    assert "./my_ways.py:Mine" in {run.config.strategy.name for run in runs}


def test_a_run_s_folder_cannot_say_what_its_ranks_import(mine):
    (mine / "evil.py").write_text(EVIL)
    (run,) = planned(*DATA)
    plain = run.config.model_copy(update={"key": run.key, "hardware": {"class": "none"}}).plain()
    files.write_resolved(mine / "config.yaml", plain | {"strategy": {"name": "./evil.py:Evil"}})
    command = [sys.executable, "-m", "repro.rank.main", "virtual", launch_digest(run), str(mine)]
    rank = subprocess.run(command, capture_output=True, text=True)
    assert rank.returncode == 2 and "config.yaml: this, or the user's code" in rank.stderr
    assert not (mine / "imported").exists()


def test_a_rank_runs_the_configuration_and_the_user_s_code_that_were_launched(mine):
    (run,) = planned("strategy=./my_ways.py:Mine", *DATA)
    digest, plain = launch_digest(run), run.config.model_copy(update={"key": run.key}).plain()
    files.write_resolved(
        mine / "config.yaml", plain | {"hardware": {"class": "of a node"}, "provenance": {"commit": "x"}}
    )
    assert read_config(mine, digest).plain() == plain | {
        "hardware": {"class": "of a node"},
        "provenance": {"commit": "x"},
    }
    (mine / "my_ways.py").write_text(f"{WAYS}\nchanged = 1\n")
    with pytest.raises(InputError, match="has changed since the launch"):
        read_config(mine, digest)
    (mine / "my_ways.py").write_text(f"{WAYS}\n# a comment\n")
    read_config(mine, digest)
    files.write_resolved(mine / "config.yaml", plain | {"batch": plain["batch"] + 1})
    with pytest.raises(InputError, match="has changed since the launch"):
        read_config(mine, digest)
