"""Plans of runs without importing PyTorch: equal, and cached until something that they depend on changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro.core.paths import PROJECT
from repro.experiment.expand import expand_runs
from repro.experiment.requested import runs_of
from repro.experiment.run import Run
from tests.support.waiting import LIMIT_S

HEAVY = ("torch", "pandas", "pyarrow", "mlflow", "hydra", "matplotlib")
ONE = ["pipesgd/fig4-mnist", "strategy=dsync", "testbed=paper/pipesgd", "testbed.arithmetic=none", "epochs=0.01"]


@pytest.mark.parametrize("experiment", ["pipesgd/fig4-mnist", "pipesgd/timing-model-large", "eagersgd/fig10"])
def test_runs_are_the_same_from_plain_data(experiment):
    found = expand_runs(experiment, [], "quick", lacking=[])
    assert found
    for run in found:
        again = Run.of_plain(json.loads(json.dumps(run.plain())))
        assert again.config.plain() == run.config.plain()
        for name in ("label", "name", "folder", "simulated", "ranks"):
            assert getattr(again, name) == getattr(run, name)
        assert again.config.model_dump() is not None


def python(tmp_path: Path, code: str, **variables: str) -> list[str]:
    """The lines that a program writes to stdout, in a process with a cache and results of its own."""
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "REPRO_RESULTS": str(tmp_path / "results")}
    environment = os.environ | own | variables | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_cached_run_loads_nothing_heavy(tmp_path):
    """Neither does the end of a paper's run whose pages are unchanged; these take a minute, and are replaced here."""
    code = f"""
import sys
from pathlib import Path
from types import SimpleNamespace
from repro.cli import experiments, pages
from repro.cli.main import main
place = Path({str(tmp_path)!r}, "page.html")
if not place.exists():
    from repro.answers.pages import build
    place.touch()
    build.build = lambda *_, **__: []
    pages.build_site = lambda out: SimpleNamespace(index=place, page=lambda paper: place)
status = main(["run", *{ONE}, "--no-mlflow"])
trained = "torch" in sys.modules  # verdicts may load plugins once, for the defaults of their options
experiments.show_where("pipesgd", report=True, runs=[], mirrored=[])
print(status, trained, sorted({{each for each in {HEAVY} if each in sys.modules}}))
"""
    bare = f"""
import sys
from repro.cli.main import main
print(main(["run", *{ONE}, "--no-mlflow", "--no-report"]), "torch" in sys.modules)
"""
    assert python(tmp_path, bare)[-1] == "0 False"
    first, second = (python(tmp_path, code) for _ in range(2))
    assert first[-1].startswith("0 ")
    assert second[-1] == "0 False []"
    assert second[:-1] == first[:-1]  # the same table and the same places
    assert any("page.html" in line for line in first)


def test_a_cached_plan_is_checked_against_what_it_depends_on(tmp_path):
    """Planned once; again for other overrides, after data were added, and after the cache was damaged."""
    code = """
import sys
from pathlib import Path
from repro.launch import plan
from repro.launch.pool import Pools
calls = []
ask = plan.ask_helper
plan.ask_helper = lambda *arguments: calls.append(1) or ask(*arguments)
overrides = ["strategy=dsync", "testbed=here", "dataset.standin=always"]
def keys(*more):
    calls.clear()
    found = plan.plan_runs(["pipesgd/fig4-mnist"], [*overrides, *more], "quick", False, pools)
    print(len(calls), *(run.key for run in found.runs))
with Pools() as pools:
    keys()
    keys()
    keys("epochs=0.5")
    (Path(sys.argv[1]) / "new").mkdir()
    keys()
    for file in Path(sys.argv[2]).glob("*.json"):
        file.write_text("{")
    keys()
    keys()
"""
    data = tmp_path / "data"
    data.mkdir()
    code = f"import sys; sys.argv = ['', {str(data)!r}, {str(tmp_path / 'cache/repro-remembered')!r}]\n{code}"
    lines = [line.split() for line in python(tmp_path, code, REPRO_DATA=str(data))]
    assert [line[0] for line in lines] == ["1", "0", "1", "1", "1", "0"]
    own, same, other, *rest = [line[1:] for line in lines]
    assert own and own == same and own != other and all(each == own for each in rest)


def test_a_value_of_a_wrong_type_is_refused_without_torch(tmp_path):
    """So is the complete configuration, which also resolves references to other values."""
    code = """
import sys
from repro.core.errors import InputError
from repro.core.without_pytorch import check_early
from repro.launch import plan
wrong = ["epochs=x", "optimizer.lr=x", "strategy=dsync,topk batch=20,0", "device=gpu", "numerics.precision=tf33"]
options = ["strategy=pipe_sgd strategy.k=3", "strategy=pipe_sgd strategy.K=x", "optimizer.lrate=1"]
for given in (*wrong, *options, "testbed.alpha=1", "testbed.kind=x"):
    try:
        check_early(lambda: plan.check_runs(["pipesgd/fig4-mnist"], given.split(), "quick", 0, True))
    except InputError as error:
        print(str(error).partition("; ")[0])
for given in ("epochs=${batch}", "strategy=pipe_sgd strategy.K=3", "testbed=virtual testbed.alpha_s=1e-3", "seeds=0,1"):
    check_early(lambda: plan.check_runs(["pipesgd/fig4-mnist"], given.split(), "quick", 0, True))
check_early(lambda: plan.check_runs(["pipesgd/fig4-mnist"], ["strategy=dsync"], "quick", 64, True))
try:
    check_early(lambda: plan.check_runs(["pipesgd/fig4-mnist"], ["testbed=here"], "quick", 64, True))
except InputError as error:
    print("measured" in str(error))
print("torch" in sys.modules)
"""
    assert python(tmp_path, code) == [
        "epochs=x: must be a number",
        "optimizer.lr=x: must be a number",
        "batch=0: must be 1 or more",
        "device=gpu: must be auto, cpu or cuda",
        "numerics.precision=tf33: must be fp32, tf32 or bf16",
        "strategy pipe_sgd: unknown option 'strategy.k'",
        "strategy.K=x: must be a whole number",
        "unknown option 'optimizer.lrate'",
        "testbed here: unknown option 'testbed.alpha'",
        "unknown testbed.kind 'x'",
        "True",
        "False",
    ]


def test_a_command_says_once_where_its_data_are(capsys):
    names = ["pipesgd/fig4-mnist", "pipesgd/k-spectrum"]
    runs, _ = runs_of(names, ["dataset.standin=always"], "quick", 0, fetch=True, together=False)
    assert {run.experiment for run in runs} == set(names)
    assert capsys.readouterr().err.count("data: mnist") == 1
