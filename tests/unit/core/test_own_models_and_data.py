"""A user's own models and data, named by their file: bare modules, .npz files, torch Datasets."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from repro import data, models
from repro.core import own_code
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.core.registry import PLUGINS
from repro.experiment.expand import expand_runs
from tests.support.own_files import FIG4, NETS, planned, refused, trained
from tests.unit.project.test_docs import blocks

VIT, NPZ = "model=./my_nets.py:Vit", ("dataset=./mine.npz", "batch=20")


@pytest.mark.parametrize("dataset", ["./mine.npz", "./my_sets.py:Points"])
def test_a_bare_module_trains_on_own_data(mine, dataset):
    """Like Hugging Face's, it returns an object with logits, and has unused arguments and parts."""
    (run,) = planned(VIT, f"dataset={dataset}", "batch=20")
    assert run.config.model.plain() == {"name": "./my_nets.py:Vit", "dim": 16, "depth": 2}
    summary = trained(mine / "run", VIT, f"dataset={dataset}", "epochs=2", "targets=[]")
    assert summary["dataset"]["name"] == dataset and not summary["dataset"]["standin"]
    assert summary["curve"][-1]["test_loss"] < summary["curve"][0]["test_loss"]


def test_a_module_is_cut_at_its_children_where_one_tensor_passes(mine):
    (run,) = planned(VIT, *NPZ)
    model = models.model_for(run.config, data.dataset_for(run.config))
    assert [name for name, _ in model.named_children()] == ["patches", "layers_0", "layers_1", "head"]
    assert PLUGINS["model"].modules(run.config.model.name) == ["my_nets", "repro.models._blocks"]


def test_unused_parameters_do_not_train(mine):
    own_code.admit_plugin("./my_nets.py:Flow")
    (block,) = models.build_model("./my_nets.py:Flow", (1, 8, 8), 4, seed=0)
    trains = {name: one.requires_grad for name, one in block.named_parameters()}
    assert trains.pop("unused.weight") is trains.pop("unused.bias") is False and all(trains.values())


@pytest.mark.skipif(not (PROJECT / "docs").is_dir(), reason="not a checkout")
def test_the_examples_of_the_documentation_train(mine):
    for page, name in (("model", "my_net.py"), ("model", "my_reviews.py"), ("dataset", "my_data.py")):
        (block,) = [each for each in blocks(PROJECT / "docs" / f"{page}.md", "python") if each.startswith(f"# {name}")]
        (mine / name).write_text(block)
    own = ("model=./my_net.py:MyNet", "model.width=8", "dataset=./my_data.py:Waves", "dataset.noise=0.2")
    (run,) = planned(*own)
    model, dataset = models.model_for(run.config, data.dataset_for(run.config)), data.dataset_for(run.config)
    assert [name for name, _ in model.named_children()] == ["features", "head"]
    assert model(dataset.train.slice(0, 2)[0]).shape == (2, dataset.classes) == (2, 10)
    assert all(run.config.dataset.options["noise"] == 0.2 for run in expand_runs(FIG4, own[2:], "full"))
    own = ("model=./my_reviews.py:Classifier", "dataset=./my_reviews.py:Reviews", "targets=[]")
    curve = trained(mine / "run", *own, "epochs=0.5", "eval_every=0.5", "checkpoint_every=0.5")["curve"]
    assert curve[-1]["test_loss"] < curve[0]["test_loss"]


def test_wrong_models_and_data_are_one_line(mine):
    assert "takes 2 inputs (image, table)" in refused("model=./my_nets.py:Two", *NPZ)
    assert "hidden has no default; set model.hidden=VALUE" in refused("model=./my_nets.py:Needs", *NPZ)
    assert "valid: Vit" in refused("model=./my_nets.py:Vitt", *NPZ)
    assert "no such file" in refused("model=./gone.py:Vit", *NPZ)
    for named in ("./my_nets.py", "./my_nets.py:"):
        assert "name a class or function of it, as ./my_nets.py:Net" in refused(f"model={named}", *NPZ)
    line = refused("model=./my_nets.py:Flow", "strategy=pipedream", "strategy.config=2-2", *NPZ)
    assert "2 stages, and blocks of the model: 1" in line and "because torch.fx cannot trace" in line
    assert "no stand-in" in refused("dataset.standin=always", *NPZ)
    assert "metrics for it: mse" in refused(VIT, "dataset=./my_sets.py:Values")
    for several in ("Pairs", "Named"):
        assert "docs/model.md: several inputs" in refused(VIT, f"dataset=./my_sets.py:{several}")
    assert refused(VIT, "dataset=./my_sets.py:Single").endswith("must be a pair (x, y), not a tuple of 1")
    assert "must be a class or function, written in Python" in refused("model=builtins:dict", *NPZ)
    assert "sample 6: x has shape (4,); must be (3,)" in refused("dataset=./my_sets.py:Ragged", "batch=20")
    assert "shapes (3,) and (4,)" in refused("dataset=./my_sets.py:Unequal", "batch=20")
    x, y = np.zeros((20, 1, 8, 8), "f4"), np.arange(20) % 2
    for arrays, complaint in (
        ({"images": x}, "must have x_train, y_train"),
        ({"x": np.array(["a"] * 20), "y": y}, "x has type <U1; must be numbers"),
        ({"x": np.where(x == 0, np.nan, x), "y": y}, "x has NaN or infinite values"),
        ({"x_train": x, "y_train": y, "x_test": x[:, :, :4], "y_test": y}, "must be of one shape"),
    ):
        np.savez(mine / "wrong.npz", **arrays)
        assert complaint in refused("dataset=./wrong.npz", "batch=20")
    for content in ((mine / "mine.npz").read_bytes()[:-200], b"no archive"):
        (mine / "wrong.npz").write_bytes(content)
        assert "wrong.npz: not an .npz file" in refused("dataset=./wrong.npz", "batch=20")


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

class Constant(Narrow):
    def __init__(self, classes):
        super().__init__(classes, classes)
        self.requires_grad_(False)

class Branches(Narrow):
    def forward(self, x):
        return super().forward(x if x.sum().item() > 0 else -x)
"""


@pytest.mark.parametrize(("net", "complaint"), [
    (("Narrow",), "its output has shape (2, 3); the data's classification needs (2, 5)"),
    (("Narrow", "model.inputs=100", "model.outputs=5"), "its block body fails: "),
    (("Scalar",), "its output has shape (); the data's classification needs (2, 5)"),
    (("Typo",), "my_nets.py:18: AttributeError"),
    (("Constant",), "has no parameters to train"),
    (("Branches",), None),  # a pass that needs values is left to the run
])  # fmt: skip
def test_a_model_that_does_not_suit_the_data_is_refused_before_the_run(mine, net, complaint):
    (mine / "my_nets.py").write_text(UNFIT)
    own = (f"model=./my_nets.py:{net[0]}", *net[1:], *NPZ)
    if complaint is None:
        assert planned(*own)
    else:
        line = refused(*own)
        assert complaint in line and f"model ./my_nets.py:{net[0]}" in line
        assert "(2, 1, 8, 8)" in line or net == ("Constant",)


BROKEN = """
from torch.utils.data import Dataset

class Broken(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return self.row(i)

def gone():
    return open("gone.csv")
"""


@pytest.mark.parametrize(("name", "line"), [
    ("Broken", "9: AttributeError: 'Broken' object has no attribute 'row'"), ("gone", "12: FileNotFoundError: "),
])  # fmt: skip
def test_an_error_in_own_data_is_one_line_with_file_and_line(mine, name, line):
    (mine / "my_sets.py").write_text(BROKEN)
    assert f"data set ./my_sets.py:{name}: {mine}/my_sets.py:{line}" in refused(f"dataset=./my_sets.py:{name}")


def test_without_test_set_a_tenth_is_held_out_and_bytes_are_scaled(mine):
    pixels = np.random.default_rng(0).integers(0, 256, (100, 1, 8, 8), np.uint8)
    np.savez(mine / "whole.npz", x=pixels, y=np.arange(100) % 5)
    for name in ("./whole.npz", "./my_sets.py:whole"):
        own_code.admit_plugin(name)
        dataset = data.load_dataset(name)
        assert len(dataset.test) * 9 == len(dataset.train) and dataset.input_shape == (1, 8, 8)
    x = data.load_dataset("./whole.npz").train.slice(0, 90)[0]
    assert x.dtype == torch.float32 and x.min() >= 0 and x.max() <= 1
    shapes = data.load_shapes("./whole.npz")
    assert shapes.train.slice(0, 2)[0].is_meta and len(shapes.train) == 90


def test_random_transforms_depend_on_seed_and_epoch(mine):
    own_code.admit_plugin("./my_sets.py:Points")
    batches = data.load_dataset("./my_sets.py:Points").train.minibatches(8, 2, seed=3)
    first = batches[1][0]
    torch.randn(7)
    assert torch.equal(batches[1][0], first)
    same = next(i for i in range(batches.per_epoch, 2 * batches.per_epoch) if batches[i][1][0] == batches[1][1][0])
    assert not torch.equal(batches[same][0][0], first[0])
    assert (
        data.load_dataset("./my_sets.py:Points", noise=0.2).checksum
        != data.load_dataset("./my_sets.py:Points").checksum
    )


def test_keys_depend_on_the_files_and_on_modules_that_they_import(mine):
    (mine / "my_parts.py").write_text("SIZE = 8\n")
    (mine / "my_nets.py").write_text("import my_parts\n" + NETS)
    (before,), (again,) = planned(VIT, *NPZ), planned(VIT, *NPZ)
    assert before.key == again.key
    (mine / "my_parts.py").write_text("SIZE = 16\n")
    (after,) = planned(VIT, *NPZ)
    assert after.key != before.key


def test_only_files_that_the_user_named_are_imported(mine):
    """Records name plugins too."""
    for group, name in (("model", "./my_nets.py:Vit"), ("model", "my_nets:Vit"), ("dataset", "./my_sets.py:Points")):
        with pytest.raises(InputError, match="did not name"):
            PLUGINS[group].load(name)
    assert "my_nets" not in sys.modules
    own_code.admit_configured({"model": {"name": "./my_nets.py:Vit"}, "title": "x"})
    assert isinstance(PLUGINS["model"].load("./my_nets.py:Vit"), SimpleNamespace)
