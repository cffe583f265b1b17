"""A record of an older schema is read as today's, and its tables are rewritten without a number changed."""

from __future__ import annotations

import hashlib
import json

import pandas as pd
import pytest

from repro.records import migrate, reference, store, tidy
from repro.records.record import SCHEMA, Record
from tests.reports.data.summaries import make

CONFIG = {
    "paper": "pipesgd", "figure": "fig4-mnist", "setting": "D-Sync", "program": "train", "workers": 4, "batch": 100,
    "epochs": 20, "model": {"name": "mnist_mlp"}, "dataset": {"name": "mnist", "standin": "auto"}, "targets": [0.97],
    "strategy": {"name": "dsync", "algorithm": "tree"}, "eval_every": 0.25, "settings": {"D-Sync": []},
    "testbed": {"name": "here", "kind": "measured", "launcher": "mpirun", "threads_per_rank": 1}, "timeout_s": 120,
}  # fmt: skip


def first(**changes):
    """A summary as schema 1 had it."""
    made = {name: value for name, value in make("D-Sync").items() if name not in ("run", "variant", "imbalance")}
    made["phases"] = {name: seconds for name, seconds in made["phases"].items() if name != "imbalance"}
    return made | {"schema": 1, "cell": "d-sync-0", "setting": "D-Sync", "factors": {"method": "D-Sync"}} | changes


def test_a_training_of_schema_1():
    old = first()
    record = Record.of(migrate.record(old, CONFIG))
    own, found = record.identity, record.result
    assert (own.paper, own.experiment, own.variant, record.run) == ("pipesgd", "fig4-mnist", "D-Sync", "d-sync-0")
    assert own.strategy.name == "dsync" and own.strategy.options == {"algorithm": "tree"}
    assert own.dataset.options == {"standin": "auto"} and not found.dataset.standin  # configured, and found
    assert own.targets == [0.97] and own.imbalance.name == "none" and own.factors == {"method": "D-Sync"}
    assert found.phases == old["phases"] | {"imbalance": 0.0} and found.curve == old["curve"]
    assert found.parameters == old["model"]["parameters"] and found.trace == old["trace"]
    assert Record.of(record.plain()) == record  # as a file of today has it


def test_a_probe_of_schema_1():
    rows = [{"setting": "D-Sync", "strategy": "dsync"}]
    old = first(program="mine", result={"settings": rows, "other": 1}, metrics={"slope": 2.0}, line="fine")
    record = Record.of(migrate.record(old, CONFIG | {"program": "mine", "probe": {"steps": 5}}))
    assert record.result.found == {"variants": [{"variant": "D-Sync", "strategy": "dsync"}], "other": 1}
    assert record.result.metrics == {"slope": 2.0} and record.identity.probe == {"steps": 5}


def test_a_padded_run_was_called_measured_and_a_modelled_testbed_stands_in_the_summary():
    assert Record.of(migrate.record(first(min_compute_s=0.6), CONFIG)).kind == "measured, padded"
    modelled = {"name": "paper/x", "kind": "simulated", "launcher": "virtual", "alpha_s": 1e-5, "arithmetic": "none"}
    old = first(kind="simulated", testbed="paper/x", launcher="virtual", testbed_model=modelled)
    record = Record.of(migrate.record(old, CONFIG | {"numerics": {"precision": "fp32"}}))
    assert record.kind == "simulated" and record.identity.testbed.options["alpha_s"] == 1e-5
    assert record.identity.numerics == {}  # nothing was computed


def test_a_summary_of_schema_1_is_read_with_its_configuration(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(first()))
    assert store.read(tmp_path).identity.strategy.options != {"algorithm": "tree"}
    (tmp_path / "config.yaml").write_text(json.dumps(CONFIG))
    assert store.read(tmp_path).identity.strategy.options == {"algorithm": "tree"}


@pytest.fixture
def tables(tmp_path):
    """A reference of schema 1."""
    folder = tmp_path / "pipesgd"
    folder.mkdir()
    old = first()
    row = {"run": "fig4-mnist/d-sync-0", "config": json.dumps(CONFIG)}
    without = old | {part: sorted(old[part][0]) for part in ("curve", "trace")}
    frames = {
        "runs": pd.DataFrame([row | {"summary": json.dumps(without)}]),
        "points": pd.DataFrame([{"run": row["run"]} | point for point in old["curve"]]),
        "intervals": pd.DataFrame([{"run": row["run"]} | interval for interval in old["trace"]]),
        "rows": pd.DataFrame({"run": []}),
    }
    said = {"schema": 1, "tables": {}}
    for name, frame in frames.items():
        frame.to_parquet(folder / f"{name}.parquet", index=False)
        data = (folder / f"{name}.parquet").read_bytes()
        said["tables"][name] = {"rows": len(frame), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(said))
    return tmp_path


def test_tables_of_schema_1_are_rewritten_once(tables, capsys):
    before = reference.read("pipesgd", tables)
    assert [record.name for record in before] == ["fig4-mnist/d-sync-0"] and len(before[0].result.curve) > 2
    reference.rewrite(tables)
    assert "1 runs" in capsys.readouterr().out
    assert json.loads((tables / "pipesgd" / "manifest.json").read_text())["schema"] == SCHEMA
    assert reference.read("pipesgd", tables) == before
    written = {path.name: path.read_bytes() for path in (tables / "pipesgd").iterdir()}
    assert written.keys() == {"manifest.json", *(f"{name}.parquet" for name in tidy.TABLES)}
    reference.rewrite(tables)
    assert {path.name: path.read_bytes() for path in (tables / "pipesgd").iterdir()} == written


@pytest.mark.parametrize("paper", reference.papers())
def test_the_committed_tables_are_of_todays_schema(paper):
    assert json.loads((reference.reference_root() / paper / "manifest.json").read_text())["schema"] == SCHEMA
