"""`import repro`: light, with the commands' names and what the commands do."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pandas as pd
import pytest

import repro
from repro.cli.main import main
from repro.core.errors import InputError
from repro.core.paths import PROJECT, reference_root
from repro.experiment.arguments import as_overrides
from repro.experiment.run import Standing
from repro.launch.run import scale_text, standing_text

FIG4 = "pipesgd/fig4-mnist"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    return tmp_path


def test_an_import_takes_no_heavy_library():
    heavy = {"torch", "pandas", "numpy", "mlflow", "hydra", "pydantic"}
    code = f"import repro, sys; print(sorted({heavy} & {{*sys.modules}}), dir(repro))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("[] ["), done.stdout + done.stderr
    assert {"run", "results", "compare", "show"} <= set(json.loads(done.stdout[3:].replace("'", '"')))


@pytest.mark.skipif(not (PROJECT / "docs").is_dir(), reason="not a checkout")
@pytest.mark.usefixtures("pooled")
def test_the_page_on_python_runs_block_by_block(workspace, capsys):
    from tests.unit.project.test_docs import blocks

    names: dict = {}
    for block in blocks(PROJECT / "docs" / "api.md", "python"):
        exec(compile(block, "docs/api.md", "exec"), names)
    assert {record.identity.strategy.name for record in names["records"]} == {"pipe_sgd", "dsync"}
    assert {record.kind for record in names["records"]} == {"simulated"}
    assert "unknown strategy 'pipesgd'" in capsys.readouterr().out
    assert names["records"][0].identity.variant in names["records"][0]._repr_html_()
    assert {"variant", "kind", "step_s", "final"} < {*[*repro.frame(names["records"])][:12]}  # what one reads is first
    # what ran stands in the tables, and is not repeated
    mine = repro.results("pipesgd", "origin=workspace")
    assert sorted(mine["strategy"]) == ["dsync", "pipe_sgd"]
    before = [record.provenance["finished_at"] for record in names["records"]]
    overrides = ["strategy=pipe_sgd,dsync", "testbed=paper/pipesgd", "dataset.standin=always", "epochs=0.2"]
    assert [r.provenance["finished_at"] for r in repro.run(FIG4, *overrides, mlflow=False)] == before


def test_tables_are_those_of_the_commands(workspace, capsys):
    def printed(*arguments: str) -> pd.DataFrame:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    where = ["experiment=fig4-mnist", "testbed=here"]
    options = [word for each in where for word in ("--where", each)]
    runs = repro.results("pipesgd", where)
    assert [row["run"] for row in printed("results", "pipesgd", *options)] == [*runs["run"]] and len(runs)
    both = repro.compare("pipe_sgd", "dsync", "pipesgd", where)
    rows = printed("compare", "pipe_sgd", "dsync", "--paper", "pipesgd", *options)
    assert [row["A / B"] for row in rows] == pytest.approx([*both["A / B"]]) and len(both)
    none = repro.compare("pipe_sgd", "dsync", where="workers=77")
    assert none.empty and none.attrs["notes"] == ["there are no runs of pipe_sgd or dsync with workers=77"]
    assert main(["compare", "pipe_sgd", "dsync", "--where", "workers=77"]) == 0
    assert none.attrs["notes"][0] in capsys.readouterr().out
    (shown,) = repro.show(FIG4, "seeds=3", "strategy=dsync")
    (row,) = printed("show", FIG4, "seeds=3", "strategy=dsync")
    assert row == json.loads(json.dumps(shown.plain())) and row["runs"] == len(shown.runs) == 9


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: repro.run(), "repro.run: missing a required argument: 'experiment'; its arguments: experiment, "),
        (lambda: repro.compare("pipe_sgd"), "repro.compare: missing a required argument: 'second'"),
        (lambda: repro.compare(*"abcde"), "repro.compare: too many positional arguments"),
        (lambda: repro.recommend("resnet50", "10g", 16, step_ms="180ms"), "step_ms='180ms': must be a number"),
        (lambda: repro.recommend("resnet50", 16, "10g"), "workers='10g': must be a whole number"),
        (lambda: repro.show(FIG4, seeds="3 5"), "seeds='3 5': must be a whole number, or a list"),
        (lambda: repro.frame(FIG4), f"frame '{FIG4}': must be a record"),
    ],
)
def test_arguments_that_no_call_takes_are_an_input_error(call, words):
    with pytest.raises(InputError) as refusal:
        call()
    assert str(refusal.value).startswith(words)


@pytest.mark.usefixtures("workspace")
def test_a_table_needs_no_merge_with_the_runs():
    where = {"testbed": "here", "seed": [0, 1]}
    runs, points = repro.results(FIG4, where), repro.results(FIG4, table="points")
    assert {*runs["experiment"]} == {*points["experiment"]} == {"fig4-mnist"} and {*runs["seed"]} == {0, 1}
    by_run = points.drop_duplicates("run").set_index("run").loc[runs["run"], ["paper", "kind", "variant", "seed"]]
    assert by_run.values.tolist() == runs[["paper", "kind", "variant", "seed"]].values.tolist()
    of_probes = repro.results("gtopk/fig8", table="rows")
    assert {"origin", "paper", "run", "experiment", "kind", "variant", "seed", "table"} <= {*of_probes}


def test_a_dictionary_says_what_the_texts_say():
    text = as_overrides(["strategy=topk,gtopk", "strategy.density=0.01", "method='K = 2'", "epochs=null", "a.b=true"])
    plain = {"strategy": ["topk", "gtopk"], "strategy.density": 0.01, "method": "K = 2", "epochs": None, "a.b": True}
    assert as_overrides([plain]) == text
    (three,), (chosen,) = repro.show(FIG4, seeds=3), repro.show(FIG4, seeds=[7])
    assert three.seeds == 3 and {run.config.seed for run in chosen.runs} == {7}


def test_claims_are_the_published_verdicts():
    claims = repro.claims("pipesgd")
    published = json.loads((reference_root() / "pipesgd" / "verdicts.json").read_text())
    now = {(row.claim, row.kind): row for row in claims.itertuples()}
    assert all(entry["verdict"].startswith(now[entry["claim"], entry["kind"]].verdict) for entry in published["claims"])
    assert {"pipesgd", "ibatch"} <= {name.split("/")[0] for name in repro.list()["name"]}


def test_bad_input_is_refused_as_by_the_commands(workspace):
    for call in (lambda: repro.run(FIG4, "modle=x"), lambda: repro.show("pipesgd/fig"), lambda: repro.results("x"),
                 lambda: repro.compare("dsync", "nobody"), lambda: repro.results("pipesgd", table="run"),
                 lambda: repro.run(FIG4, scale="quik"), lambda: repro.run(FIG4, ["strategy=dsync"]),
                 lambda: repro.show(FIG4, 3), lambda: repro.run(None), lambda: repro.run(3), lambda: repro.show(None),
                 lambda: repro.compare("dsync", "dsync"), lambda: repro.run(FIG4, {"epochs": object()}),
                 lambda: repro.run(FIG4, seeds="1,1"), lambda: repro.run(FIG4, {"strategy": []}),
                 lambda: repro.results("pipesgd/nobody"), lambda: repro.results("pipesgd", where=3),
                 lambda: repro.results("pipesgd", {"nobody": 3}), lambda: repro.results("pipesgd", {"workers": "x"}),
                 lambda: repro.list("nobody"), lambda: repro.claims("nobody"), lambda: repro.run(FIG4, force="yes"),
                 lambda: repro.run(FIG4, mlflow="no"), lambda: repro.run(FIG4, scale=None), lambda: repro.frame("x"),
                 lambda: repro.show(FIG4, draws=3), lambda: repro.results("pipesgd", {4: 4}), lambda: repro.frame(3),
                 lambda: repro.compare("dsync", 3), lambda: repro.run(FIG4, seed=1), lambda: repro.results(""),
                 lambda: repro.results(table=None), lambda: repro.results("pipesgd", {"workers": None})):  # fmt: skip
        with pytest.raises(InputError):
            call()
    assert callable(repro.recommend)
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        repro.runn  # noqa: B018
    assert not list((workspace / "results").rglob("summary.json"))


def test_published_runs_that_run_here_too_are_to_do():
    assert standing_text(0, Standing(19, 0, 14)) == "0 done, 33 to do: 19 published, 0 stale, 14 missing"
    assert standing_text(3, Standing()) == "3 done, 0 to do"
    assert standing_text(0, Standing(), 1).startswith("0 done, 1 diverged") and "to do" not in standing_text(
        0, Standing(), 1
    )


def test_runs_that_are_the_same_at_another_scale_are_counted():
    runs = [SimpleNamespace(config=SimpleNamespace(scale=scale)) for scale in ("full", "quick", "full")]
    assert scale_text(runs, "quick") == "quick (2 of 3 runs are the same at scale full)"
    assert scale_text(runs[1:2], "quick") == scale_text([], "quick") == "quick"
