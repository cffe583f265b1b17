"""Models and data of a user's, named by their place: bare modules, .npz files, torch Datasets."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from repro import data, models
from repro.cli.main import main
from repro.core import own_code
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.core.registry import PLUGINS
from repro.experiment.expand import expand
from repro.experiment.identify import identify
from repro.fabric.virtual import fabric as virtual
from repro.rank import programs
from repro.records import catalogue, reference
from repro.records.catalogue import WORKSPACE, Found
from repro.testing import StrategyConformance, small
from tests.support.records import read_summary
from tests.unit.project.test_docs import blocks

FIG4 = "pipesgd/fig4-mnist"
NETS = """
import torch
from torch import nn

class Output:
    def __init__(self, logits):
        self.logits = logits

class Vit(nn.Module):
    def __init__(self, input_shape, num_classes, dim=16, depth=2, act=nn.ReLU):
        super().__init__()
        self.patches = nn.Conv2d(input_shape[0], dim, 4, 4)
        self.position = nn.Parameter(0.02 * torch.randn(1, input_shape[1] * input_shape[2] // 16, dim))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(dim, 2, 32, batch_first=True) for _ in range(depth))
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, pixel_values, labels=None, **more):
        x = self.patches(pixel_values).flatten(2).transpose(1, 2) + self.position
        for layer in self.layers:
            x = layer(x)
        return Output(self.head(x.mean(1)))

class Flow(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.a, self.b, self.unused = nn.Linear(64, 16), nn.Linear(16, classes), nn.Linear(2, 2)

    def forward(self, x):
        return self.b(self.a(x.flatten(1)).relu()) if len(x) > 0 else x

class Two(nn.Module):
    def forward(self, image, table):
        return image

class Needs(nn.Module):
    def __init__(self, hidden, classes):
        super().__init__()
        self.a = nn.Linear(hidden, classes)
"""
SETS = """
import torch
from torch.utils.data import Dataset

class Points(Dataset):
    def __init__(self, train=True, noise=0.1):
        self.y = torch.arange(80 if train else 40) % 4
        self.noise = noise

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.y[i] + self.noise * torch.randn(1, 8, 8), int(self.y[i])

def whole():
    return Points()

class Values(Points):
    def __getitem__(self, i):
        return torch.full((64,), 0.1 * i), 0.1 * i

class Pairs(Points):
    def __getitem__(self, i):
        return (torch.zeros(3), torch.zeros(4)), 0

class Ragged(Points):
    def __getitem__(self, i):
        return torch.zeros(3 + (i > 5)), 0

class Unequal(Points):
    def __init__(self, train=True):
        super().__init__(train)
        self.size = 3 if train else 4

    def __getitem__(self, i):
        return torch.zeros(self.size), 0

class Named(Points):
    def __getitem__(self, i):
        return {"x": torch.zeros(3), "y": 0}
"""


WAYS = """
from repro.algorithms.imbalance.base import Imbalance
from repro.strategies.base import Strategy
from repro.strategies.dsync import DSync

class Mine(DSync):
    name = "mine"

class Other:
    pass

class Late(Imbalance):
    name = "late"
    longest = 0.01

    def delays(self, iteration):
        return DELAYS


"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a user's files, in which commands are run."""
    (tmp_path / "my_nets.py").write_text(NETS)
    (tmp_path / "my_sets.py").write_text(SETS)
    y = np.arange(100) % 5
    x = np.random.default_rng(0).normal(size=(100, 1, 8, 8)).astype("float32") + y[:, None, None, None]
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x[:50], y_test=y[:50])
    np.savez(tmp_path / "whole.npz", x=(x * 10).clip(0, 255).astype("uint8"), y=y)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(own_code, "_admitted", set())
    monkeypatch.setattr(own_code, "_folders", set())
    models._on_meta.cache_clear()
    yield tmp_path
    data.forget()
    for name in ("my_nets", "my_sets", "my_reviews", "my_net", "my_data", "my_ways", "empty"):
        sys.modules.pop(name, None)


def planned(*overrides: str):
    runs = expand(FIG4, ["strategy=dsync", "testbed=virtual", *overrides])
    identify(runs)
    return runs


def refused(*overrides: str) -> str:
    with pytest.raises(InputError) as refusal:
        planned(*overrides)
    return str(refusal.value)


@pytest.mark.parametrize("given", ["./mine.npz", "./my_sets.py:Points"])
def test_a_bare_module_trains_on_ones_own_data(mine, given):
    """As Hugging Face's do, it returns an object with logits, and has arguments and parts that nobody uses."""
    (run,) = planned("model=./my_nets.py:Vit", f"dataset={given}", "workers=2", "batch=20", "epochs=3", "targets=[]")
    assert run.config.model.plain() == {"name": "./my_nets.py:Vit", "dim": 16, "depth": 2}
    config = run.config.model_copy(update={"key": "k", "hardware": {"class": "none"}})
    virtual.run(2, lambda fabric: programs.run(fabric, config, mine / "run"), small.NETWORK, small.COSTS)
    found = read_summary(mine / "run")
    assert found["dataset"]["name"] == given and not found["dataset"]["standin"]
    assert found["curve"][-1]["test_loss"] < found["curve"][0]["test_loss"]


def test_it_is_cut_by_its_children_where_one_tensor_passes(mine):
    (run,) = planned("model=./my_nets.py:Vit", "dataset=./mine.npz")
    model = models.of(run.config, data.of(run.config))
    assert [name for name, _ in model.named_children()] == ["patches", "layers_0", "layers_1", "head"]
    assert PLUGINS["model"].modules(run.config.model.name) == ["my_nets", "repro.models._own"]


def test_parameters_that_are_not_used_do_not_train(mine):
    own_code.admit("./my_nets.py:Flow")
    (block,) = models.build("./my_nets.py:Flow", (1, 8, 8), 4, seed=0)
    trains = {name: one.requires_grad for name, one in block.named_parameters()}
    assert trains.pop("unused.weight") is trains.pop("unused.bias") is False and all(trains.values())


@pytest.mark.skipif(not (PROJECT / "docs").is_dir(), reason="not a checkout")
def test_the_examples_of_the_pages_train(mine):
    for page, name in (("model", "my_net.py"), ("model", "my_reviews.py"), ("dataset", "my_data.py")):
        (block,) = [each for each in blocks(PROJECT / "docs" / f"{page}.md", "python") if each.startswith(f"# {name}")]
        (mine / name).write_text(block)
    own = ("model=./my_net.py:MyNet", "model.width=8", "dataset=./my_data.py:Waves", "dataset.noise=0.2")
    (run,) = planned(*own)
    model, dataset = models.of(run.config, data.of(run.config)), data.of(run.config)
    assert [name for name, _ in model.named_children()] == ["features", "head"]
    assert model(dataset.train.slice(0, 2)[0]).shape == (2, dataset.classes) == (2, 10)
    assert all(run.config.dataset.options["noise"] == 0.2 for run in expand(FIG4, own[2:], "full"))
    two = ("model=./my_reviews.py:Classifier", "dataset=./my_reviews.py:Reviews", "targets=[]", "epochs=2")
    (run,) = planned(*two, "workers=2", "batch=20")
    config = run.config.model_copy(update={"key": "k", "hardware": {"class": "none"}})
    virtual.run(2, lambda fabric: programs.run(fabric, config, mine / "run"), small.NETWORK, small.COSTS)
    curve = read_summary(mine / "run")["curve"]
    assert curve[-1]["test_loss"] < curve[0]["test_loss"]


def test_what_cannot_be_is_one_line(mine):
    given = ("dataset=./mine.npz", "batch=20")
    assert "takes 2 inputs (image, table)" in refused("model=./my_nets.py:Two", *given)
    assert "hidden has no default; set model.hidden=VALUE" in refused("model=./my_nets.py:Needs", *given)
    assert "nearest: Vit" in refused("model=./my_nets.py:Vitt", *given)
    assert "no such file" in refused("model=./gone.py:Vit", *given)
    assert "name a class or function" in refused("model=./my_nets.py", *given)
    line = refused("model=./my_nets.py:Flow", "strategy=pipedream", "strategy.config=2-2", *given)
    assert "2 stages, and blocks of the model: 1" in line and "because torch.fx cannot trace" in line
    assert "no stand-in" in refused("dataset=./mine.npz", "dataset.standin=always", "batch=20")
    (mine / "cut.npz").write_bytes((mine / "mine.npz").read_bytes()[:-200])
    assert "cut.npz: not readable" in refused("dataset=./cut.npz", "batch=20")
    assert "metrics for it: mse" in refused("model=./my_nets.py:Vit", "dataset=./my_sets.py:Values")
    for several in ("Pairs", "Named"):
        assert "docs/model.md: several inputs" in refused("model=./my_nets.py:Vit", f"dataset=./my_sets.py:{several}")
    np.savez(mine / "bad.npz", images=np.zeros(3))
    assert "must have x_train, y_train" in refused("dataset=./bad.npz", "batch=20")
    (mine / "text.npz").write_text("no archive")
    assert "not readable as an .npz" in refused("dataset=./text.npz", "batch=20")


def test_samples_are_numbers_of_one_shape(mine):
    x, y = np.zeros((20, 1, 8, 8), "f4"), np.arange(20) % 2
    for name, arrays, words in (
        ("words", {"x": np.array(["a"] * 20), "y": y}, "x has type <U1; must be numbers"),
        ("nan", {"x": np.where(x == 0, np.nan, x), "y": y}, "x has NaN or infinite values"),
        ("two", {"x_train": x, "y_train": y, "x_test": x[:, :, :4], "y_test": y}, "must be of one shape"),
    ):
        np.savez(mine / f"{name}.npz", **arrays)
        assert words in refused(f"dataset=./{name}.npz", "batch=20")
    assert "sample 6: x has shape (4,); must be (3,)" in refused("dataset=./my_sets.py:Ragged", "batch=20")
    assert "shapes (3,) and (4,)" in refused("dataset=./my_sets.py:Unequal", "batch=20")


UNFIT = """
from torch import nn

class Narrow(nn.Module):
    def __init__(self, classes, outputs=3, inputs=64):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 16)), nn.Linear(16, outputs)

    def forward(self, x):
        return self.head(self.body(x))

class Scalar(Narrow):
    def forward(self, x):
        return super().forward(x).sum()

class Typo(Narrow):
    def forward(self, x):
        return self.haed(self.body(x))

class Branches(Narrow):
    def forward(self, x):
        return super().forward(x if x.sum().item() > 0 else -x)
"""


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (("Narrow",), "its output has shape (2, 3); the data's classification needs (2, 5)"),
        (("Narrow", "model.inputs=100", "model.outputs=5"), "its block body fails: "),
        (("Scalar",), "its output has shape (); the data's classification needs (2, 5)"),
        (("Typo",), "my_nets.py:18: AttributeError"),
    ],
)
def test_a_model_that_does_not_suit_the_data_is_refused_before_anything_starts(mine, net, words):
    (mine / "my_nets.py").write_text(UNFIT)
    name, *options = net
    line = refused(f"model=./my_nets.py:{name}", *options, "dataset=./mine.npz", "batch=20")
    assert words in line and f"model ./my_nets.py:{name}" in line and "(2, 1, 8, 8)" in line


def test_a_pass_that_needs_values_is_left_to_the_run(mine):
    (mine / "my_nets.py").write_text(UNFIT)
    assert planned("model=./my_nets.py:Branches", "dataset=./mine.npz", "batch=20")


def test_a_strategy_of_a_file_trains(mine):
    (mine / "my_ways.py").write_text(WAYS)

    def trained(strategy: str) -> str:
        (run,) = planned(f"strategy={strategy}", "dataset=./mine.npz", "workers=2", "batch=20", "epochs=1")
        config = run.config.model_copy(update={"key": "k", "hardware": {"class": "none"}})
        folder = mine / strategy.rpartition(":")[2]
        virtual.run(2, lambda fabric: programs.run(fabric, config, folder), small.NETWORK, small.COSTS)
        return read_summary(folder)["weights_sha256"]

    assert trained("dsync") == trained("./my_ways.py:Mine")
    (run,) = planned("strategy=./my_ways.py:Mine", "dataset=./mine.npz", "batch=20")
    (mine / "my_ways.py").write_text(WAYS + "\n# otherwise\nX = 1\n")
    (after,) = planned("strategy=./my_ways.py:Mine", "dataset=./mine.npz", "batch=20")
    assert run.key != after.key and run.users_code["strategy"] != after.users_code["strategy"]


def test_runs_of_a_file_before_and_after_a_change_are_two_variants():
    """The file has the same name."""
    record = next(record for record in reference.read("pipesgd") if record.trained)
    found = [Found(WORKSPACE, each) for each in (record, *(of_code(record, code) for code in ("0123abcd", "0123abce")))]
    runs = catalogue.table("runs", found)
    assert runs["label"].nunique() == runs["configuration"].nunique() == 3 and runs["besides"].nunique() == 1


def of_code(record, code):
    return record.model_copy(update={"provenance": record.provenance | {"users_code": {"strategy": code}}})


def test_a_file_stands_beside_names_in_one_command(mine):
    (mine / "my_ways.py").write_text(WAYS)
    given = ("dataset=./mine.npz", "batch=20", "testbed=virtual")
    runs = expand(FIG4, ["strategy=./my_ways.py:Mine,dsync", "imbalance=./my_ways.py:Late,none", *given])
    assert {run.config.strategy.name for run in runs} == {"./my_ways.py:Mine", "dsync"} and len(runs) == 4


@pytest.mark.parametrize("wrong", ["[0.5, 0.5]", "[-0.1, 0.0]", "[0.1]"])
def test_delays_that_are_none_or_beyond_their_bound_end_the_run(mine, wrong):
    (mine / "my_ways.py").write_text(WAYS.replace("DELAYS", wrong))
    (run,) = planned("imbalance=./my_ways.py:Late", "dataset=./mine.npz", "workers=2", "batch=20", "epochs=1")
    config = run.config.model_copy(update={"key": "k", "hardware": {"class": "none"}})
    with pytest.raises(InputError, match=r"Late: delays\(0\)"):
        virtual.run(2, lambda fabric: programs.run(fabric, config, mine / "run"), small.NETWORK, small.COSTS)


def test_a_step_that_returns_nothing_ends_the_run(mine):
    (mine / "my_ways.py").write_text(WAYS + "\nclass Mute(DSync):\n    def step(self):\n        super().step()\n")
    (run,) = planned("strategy=./my_ways.py:Mute", "dataset=./mine.npz", "workers=2", "batch=20", "epochs=1")
    config = run.config.model_copy(update={"key": "k", "hardware": {"class": "none"}})
    with pytest.raises(InputError, match="must return a StepReport"):
        virtual.run(2, lambda fabric: programs.run(fabric, config, mine / "run"), small.NETWORK, small.COSTS)


def test_a_strategy_of_a_file_can_be_tested(mine):
    (mine / "my_ways.py").write_text(WAYS)

    class TestMine(StrategyConformance):
        strategy = "./my_ways.py:Mine"

    tests = TestMine()
    tests.test_one_worker_is_plain_sgd(TestMine.name.__wrapped__(tests))


def test_a_strategy_of_a_file_that_is_none_is_one_line(mine):
    (mine / "my_ways.py").write_text(WAYS + "\nclass Abstract(Strategy):\n    name = 'abstract'\n")
    (mine / "empty.py").write_text("")
    several = refused("strategy=./my_ways.py")
    assert "add :CLASS" in several and "Mine" in several and "Abstract" in several
    assert "must define step" in refused("strategy=./my_ways.py:Abstract")
    assert "derived from Strategy" in refused("strategy=./empty.py")
    assert "derived from Strategy" in refused("strategy=./my_ways.py:Other")
    assert "docs/strategy.md" in refused("strategy=./mine.npz")
    assert "./FILE.npz" in refused("dataset=./mine.npy") and "./FILE.py:NAME" in refused("model=./mine.pt")


def test_commands_take_a_file_as_they_take_a_name(mine, capsys):
    (mine / "my_ways.py").write_text(WAYS)
    given = ["--model", "./my_nets.py:Vit", "--dataset", "./mine.npz", "--steps", "1"]
    assert main(["price", "./my_ways.py:Mine", *given]) == 0
    assert main(["profile", *given[1:4], "--minibatches", "1"]) == 0
    assert main(["profile", "./my_nets.py:Vit"]) == 2
    assert "--dataset" in capsys.readouterr().err
    with pytest.raises(SystemExit) as refusal:
        main(["price", "dsync", "--model", "./gone.py:Vit"])
    assert refusal.value.code == 2 and "./gone.py: no such file" in capsys.readouterr().err


def test_without_a_test_part_a_tenth_is_held_out_and_bytes_are_scaled(mine):
    for name in ("./whole.npz", "./my_sets.py:whole"):
        own_code.admit(name)
        found = data.load(name)
        assert len(found.test) * 9 == len(found.train) and found.input_shape == (1, 8, 8)
    pixels = data.load("./whole.npz").train.slice(0, 90)[0]
    assert pixels.dtype == torch.float32 and pixels.min() >= 0 and pixels.max() <= 1
    shapes = data.shapes("./whole.npz")
    assert shapes.train.slice(0, 2)[0].is_meta and len(shapes.train) == 90


def test_random_transforms_follow_from_seed_and_epoch(mine):
    own_code.admit("./my_sets.py:Points")
    batches = data.load("./my_sets.py:Points").train.minibatches(8, 2, seed=3)
    first = batches[1][0]
    torch.randn(7)
    assert torch.equal(batches[1][0], first)
    same = next(i for i in range(batches.per_epoch, 2 * batches.per_epoch) if batches[i][1][0] == batches[1][1][0])
    assert not torch.equal(batches[same][0][0], first[0])
    assert data.load("./my_sets.py:Points", noise=0.2).checksum != data.load("./my_sets.py:Points").checksum


def test_keys_follow_the_files_and_those_beside_them(mine):
    (mine / "my_parts.py").write_text("SIZE = 8\n")
    (mine / "my_nets.py").write_text("import my_parts\n" + NETS)
    arguments = ("model=./my_nets.py:Vit", "dataset=./mine.npz", "batch=20")
    (before,), (again,) = planned(*arguments), planned(*arguments)
    assert before.key == again.key
    (mine / "my_parts.py").write_text("SIZE = 16\n")
    (after,) = planned(*arguments)
    assert after.key != before.key
    sys.modules.pop("my_parts", None)


def test_only_what_the_user_named_is_imported(mine):
    """Records name plugins too."""
    for group, name in (("model", "./my_nets.py:Vit"), ("model", "my_nets:Vit"), ("dataset", "./my_sets.py:Points")):
        with pytest.raises(InputError, match="did not name"):
            PLUGINS[group].load(name)
    assert "my_nets" not in sys.modules
    own_code.admit_configured({"model": {"name": "./my_nets.py:Vit"}, "title": "x"})
    assert isinstance(PLUGINS["model"].load("./my_nets.py:Vit"), SimpleNamespace)
