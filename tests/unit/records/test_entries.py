"""An entry of the configuration is declared once, with its role, and appears wherever runs are shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from repro.core.paths import PROJECT
from repro.experiment.expand import expand_runs
from repro.experiment.key import keyed_values
from repro.experiment.schema import RunConfig
from repro.records import variants
from repro.records.configured import Configured, roles_of
from repro.records.identity import Identity
from repro.records.record import Record
from tests.support.records import finished

NEW_ENTRY = """
import importlib.util, sys
spec = importlib.util.find_spec("repro.records.configured")
source = open(spec.origin).read().replace("    device: Annotated", "    dummy: int = 7\\n    device: Annotated")
module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
exec(compile(source, spec.origin, "exec"), module.__dict__)

import shutil
from pathlib import Path
from repro.core import paths
shutil.copytree(paths.CONFIGS, configs := Path(sys.argv[1], "configs"))
with (configs / "config.yaml").open("a") as entries:
    entries.write("dummy: 7\\n")
paths.CONFIGS = configs

from repro.answers.mlflow.format import parameters, run_name, tags
from repro.answers.mlflow.source import of_record
from repro.answers.pages import provenance
from repro.answers.tables.results import arrange
from repro.experiment.expand import expand_runs
from repro.experiment.key import keyed_values
from repro.records.record import Found
from repro.records.tables import build_table
from repro.records.variants import WORKSPACE
from tests.support.records import finished

chosen = ["strategy=dsync", "testbed=paper/pipesgd", "dataset.standin=always"]
(before,), (after,) = (expand_runs("pipesgd/fig4-mnist", [*chosen, *more]) for more in ([], ["dummy=8"]))
assert "dummy" not in keyed_values(before.config) and before.config.dummy == 7
assert keyed_values(after.config) == keyed_values(before.config) | {"dummy": 8}
runs = [Found(WORKSPACE, finished(run)) for run in (before, after)]
after = after.config
table = build_table("runs", runs)
assert list(table["dummy"]) == [7, 8] and table["configuration"].nunique() == 2
assert table["variant"][1] == table["variant"][0] + ", dummy=8" == runs[1].label
assert parameters(after.plain())["dummy"] == "8"
row = provenance.others([arrange("pipesgd", [runs[1]]).runs])
assert "dummy=8" in row["variant"][0]
assert "dummy=8" in run_name(runs[1].identity) and "dummy=8" in tags(of_record(runs[1].record, Path()))["group"]
"""


def test_a_new_entry_is_declared_once_and_appears_everywhere(tmp_path):
    """In the schema and its YAML; then in key, label, results, MLflow and the page's tables."""
    subprocess.run([sys.executable, "-c", NEW_ENTRY, str(tmp_path)], check=True, cwd=PROJECT)


STRATEGY = """
from dataclasses import dataclass
from typing import Annotated
from repro.records.configured import Role
from repro.strategies.dsync import DSync
from repro.strategies.shared.data_parallel import AllreduceOptions

@dataclass
class Options(AllreduceOptions):
    depth: int = 1
    trace: Annotated[int, Role(minor=True)] = 0
    log: Annotated[int, Role("never", minor=True)] = 0

class Mine(DSync):
    name = "roled"
    Options = Options
"""


def test_an_options_role_stands_beside_it_and_a_record_keeps_that_of_its_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("roled.py").write_text(STRATEGY)
    options = ["strategy.depth=2", "strategy.trace=3", "strategy.log=4"]
    chosen = ["testbed=paper/pipesgd", "dataset.standin=always", "strategy=roled.py"]
    (made,) = expand_runs("pipesgd/fig4-mnist", [*chosen, *options])
    record = finished(made)
    own = Record.of(record.plain()).identity
    assert keyed_values(made.config)["strategy"] == {"name": own.strategy.name, "depth": 2, "trace": 3}
    assert variants.label(own).endswith(", depth=2") and "dataset.standin" in own.minor
    Path("roled.py").write_text(STRATEGY.replace("minor=True", "minor=False"))
    assert variants.label(own).endswith(", depth=2")
    before = Identity.model_validate(own.plain() | {"minor": None})  # of before records stored it
    assert "trace=3" in variants.label(before) and "standin" not in variants.label(before)
    assert "minor" not in before.plain()


def test_an_entry_that_is_declared_again_keeps_its_role():
    roles = roles_of(RunConfig)
    assert {name: roles[name] for name in Configured.model_fields} == roles_of(Configured)
    assert roles["title"].keyed == "never" and roles["epochs"].keyed == "always"
