"""A user's own strategies and imbalances, named by their file."""

from __future__ import annotations

import pytest

from repro.cli.main import main
from repro.core.errors import InputError
from repro.core.not_none import not_none
from repro.experiment.expand import expand_runs
from repro.records import reference, results, store
from repro.records.record import Found
from repro.records.record_list import Records
from repro.records.tables import build_table
from repro.records.variants import WORKSPACE
from repro.testing import StrategyConformance
from tests.support.own_files import FIG4, WAYS, planned, refused, trained
from tests.unit.mlflow.made import write_finished

DATA = ("dataset=./mine.npz", "batch=20")


def test_a_strategy_in_a_file_trains_and_its_content_is_in_the_key(mine):
    sha256 = [
        trained(mine / name, f"strategy={strategy}", "dataset=./mine.npz", "epochs=1")["weights_sha256"]
        for name, strategy in (("theirs", "dsync"), ("own", "./my_ways.py:Mine"))
    ]
    assert sha256[0] == sha256[1]
    (run,) = planned("strategy=./my_ways.py:Mine", *DATA)
    (mine / "my_ways.py").write_text(WAYS + "\n# changed\nX = 1\n")
    (after,) = planned("strategy=./my_ways.py:Mine", *DATA)
    assert run.key != after.key and run.users_code["strategy"] != after.users_code["strategy"]


def test_runs_before_and_after_a_change_of_the_file_are_two_variants():
    record = next(record for record in reference.read("pipesgd") if record.trained)
    changed = [
        record.model_copy(update={"provenance": record.provenance | {"users_code": {"strategy": code}}})
        for code in ("0123abcd", "0123abce")
    ]
    runs = build_table("runs", [Found(WORKSPACE, each) for each in (record, *changed)])
    assert runs["variant"].nunique() == runs["configuration"].nunique() == 3 and runs["besides"].nunique() == 1


def test_a_strategy_in_a_file_is_compared_under_its_own_name(mine, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(mine / "results"))
    (mine / "my_ways.py").write_text(WAYS.replace('name = "mine"', 'name, Options = "mine", DSync.Options'))
    sizes = {"model": {"name": "mnist_mlp"}, "epochs": 1}
    for name in ("./my_ways.py:Mine", "dsync"):
        folder = mine / "results" / "pipesgd" / "fig4-mnist" / name[-4:]
        write_finished(folder, config=sizes, variant=name, strategy=name)
    assert len(results.compare("mine", "dsync", FIG4)) == 1


def test_files_and_names_in_one_command(mine):
    both = ["strategy=./my_ways.py:Mine,dsync", "imbalance=./my_ways.py:Late,none", "testbed=virtual", *DATA]
    runs = expand_runs(FIG4, both)
    assert {run.config.strategy.name for run in runs} == {"./my_ways.py:Mine", "dsync"} and len(runs) == 4


MUTE = "\nclass Mute(DSync):\n    def step(self):\n        super().step()\n"


@pytest.mark.parametrize(("content", "override", "complaint"), [
    *((WAYS.replace("DELAYS", delays), "imbalance=./my_ways.py:Late", r"Late: delays\(0\)")
      for delays in ("[0.5, 0.5]", "[-0.1, 0.0]", "[0.1]")),
    (WAYS + MUTE, "strategy=./my_ways.py:Mute", "must return a StepReport"),
])  # fmt: skip
def test_wrong_delays_and_a_wrong_step_end_the_run(mine, content, override, complaint):
    (mine / "my_ways.py").write_text(content)
    with pytest.raises(InputError, match=complaint):
        trained(mine / "run", override, "dataset=./mine.npz", "epochs=1")


SUM = """

from repro.strategies.shared.data_parallel import GradientStrategy


class Sum(GradientStrategy):
    name = "sum"

    def exchange(self, gradient):
        self.worker.fabric.allreduce(gradient)
        return gradient * FACTOR
"""
LOCAL_SGD = """

from repro.strategies.base import StepReport
from repro.strategies.shared.data_parallel import DataParallel


class Sum(DataParallel):
    name = "sum"
    identical_replicas = False

    def step(self):
        loss = self.worker.gradients(self.minibatch())
        self.worker.update()
        if self.iteration % 4 == 3:
            weights = self.worker.model_shard.weights
            self.worker.fabric.allreduce(weights).wait()
            weights.mul_(FACTOR / self.worker.workers)
        return self.advanced(loss)
"""


@pytest.mark.parametrize("of", ["gradients", "weights"])
def test_a_forgotten_division_is_told(mine, capsys, of):
    """And a correct strategy is not suspected."""
    for factor, told in (("self.worker.workers", True), ("1", False)):
        (mine / f"{of}_{told}.py").write_text((SUM if of == "gradients" else LOCAL_SGD).replace("FACTOR", factor))
        run = trained(mine / f"run_{told}", f"strategy=./{of}_{told}.py:Sum", "dataset=./mine.npz", "epochs=1")
        listed = repr(Records([not_none(store.read(mine / f"run_{told}"))]))
        for shown in (capsys.readouterr().out, " ".join(run["warnings"]), listed):
            assert ("as if a sum of 2 were not divided" in shown) is told


def test_a_strategy_in_a_file_can_be_tested(mine):
    class TestMine(StrategyConformance):
        strategy = "./my_ways.py:Mine"

    tests = TestMine()
    tests.test_one_worker_is_plain_sgd(TestMine.name.__wrapped__(tests))


def test_a_wrong_file_is_one_line(mine):
    (mine / "my_ways.py").write_text(WAYS + "\nclass Abstract(Strategy):\n    name = 'abstract'\n")
    (mine / "empty.py").write_text("")
    several = refused("strategy=./my_ways.py")
    assert "add :CLASS" in several and "Mine" in several and "Abstract" in several
    assert "must define step" in refused("strategy=./my_ways.py:Abstract")
    assert "derived from Strategy" in refused("strategy=./empty.py")
    assert "derived from Strategy" in refused("strategy=./my_ways.py:Other")
    assert "docs/strategy.md" in refused("strategy=./mine.npz")
    assert "./FILE.npz" in refused("dataset=./mine.npy") and "./FILE.py:NAME" in refused("model=./mine.pt")


def test_commands_accept_files(mine, capsys):
    model = ["--model", "./my_nets.py:Vit", "--dataset", "./mine.npz"]
    assert main(["price", "./my_ways.py:Mine", *model, "--steps", "1"]) == 0
    assert main(["profile", *model[1:], "--minibatches", "1"]) == 0
    assert main(["profile", "./my_nets.py:Vit"]) == 2
    assert "--dataset" in capsys.readouterr().err
    assert main(["price", "dsync", "--model", "./gone.py:Vit"]) == 2
    assert "./gone.py: no such file" in capsys.readouterr().err
