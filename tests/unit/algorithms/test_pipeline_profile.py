"""Profiles: their files, the authors' text format, estimates, and what the profiler measures."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from dataclasses import asdict, replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from repro import models
from repro.algorithms.pipeline import profile, profiler
from repro.algorithms.pipeline import profile as profiles
from repro.algorithms.pipeline.downsets import Downsets
from repro.algorithms.pipeline.layers import Layer, Profile
from repro.core.errors import InputError
from repro.experiment.testbeds import Rate
from repro.testing.small import CLASSES, INPUTS, split
from repro.training.cuda_timer import DeviceTimes
from repro.training.device_times import BlockSeconds, block_seconds
from tests.support import pipedream_vgg16

SMALL = Profile(
    "small", 4, "a machine", (Layer("a", 0.25, 0.5, 80.0, 140.0), Layer("b", 1.0, 0.0, 48, 0)), 20, 5, "measured", 96
)
DEVICE = Rate(name="made up", peak_flops=2e9, utilisation=0.5, launch_s=1e-5)


def test_a_profile_survives_its_file(tmp_path):
    path = tmp_path / "small.json"
    profiles.write_profile(path, SMALL)
    assert profiles.load_profile(path) == SMALL and SMALL.seconds == 1.75 and SMALL.layers[0].seconds == 0.75
    assert [entry.name for entry in tmp_path.iterdir()] == ["small.json"]  # no temporary file is left
    assert json.loads(path.read_text())["hardware"] == "a machine"


def changed(**layer) -> dict:
    found = asdict(SMALL)
    found["layers"] = [dict(found["layers"][0]), found["layers"][1] | layer]
    return found


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (changed(forward_s=-1.0), "layers.1.forward_s=-1.0"),
        (changed(parameter_bytes=2**63 - 1), "layers.1.parameter_bytes="),
        (changed(backward_s=float("nan")), "NaN"),
        (changed(parameter_bytes=True), "layers.1.parameter_bytes=True"),
        (changed() | {"input_bytes": -4}, "input_bytes=-4"),
        (changed() | {"layers": []}, "has no layers"),
        (changed() | {"layers": [{"name": "b", "forward_s": 1.0}]}, "layers.0.backward_s: is missing"),
        (changed(colour=1), "layers.1.colour: unknown entry"),
        ({"model": "small"}, "batch: is missing"),
        (changed() | {"source": "guessed"}, "source=guessed: must be measured"),
        (changed() | {"batch": 0}, "batch=0"),
        ([], "the profile: must be a mapping"),
    ],
)
def test_wrong_profiles(tmp_path, found, words):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(found))
    with pytest.raises(InputError) as refusal:
        profiles.load_profile(path)
    assert words in str(refusal.value) and "bad.json" in str(refusal.value) and "\n" not in str(refusal.value)


def test_files_that_are_no_profile(tmp_path):
    with pytest.raises(InputError, match="no such profile; `repro profile MODEL --out FILE` makes one"):
        profiles.load_profile(tmp_path / "none.json")
    for text in ("", "hello", "{", "\x00"):
        (tmp_path / "text").write_text(text)
        with pytest.raises(InputError, match="not a profile"):
            profiles.load_profile(tmp_path / "text")
    with pytest.raises(InputError, match="not a readable profile"):
        profiles.load_profile(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not a readable profile"):
        profiles.load_profile(tmp_path / "bytes")
    for place, words in ((tmp_path / "no" / "p.json", "there is no folder"), (tmp_path, "is a folder")):
        with pytest.raises(InputError, match=words):
            profiles.write_profile(place, SMALL)


def test_a_profile_of_another_model_is_refused():
    profiles.check_model(SMALL, ["a", "b"])
    with pytest.raises(InputError, match=r"another model \(small\): it has 2 layers and the model 3 blocks"):
        profiles.check_model(SMALL, ["a", "b", "c"])
    with pytest.raises(InputError, match=r"another model \(small\): its layer 1 is 'b' and the model's block 1 is 'c'"):
        profiles.check_model(SMALL, ["a", "c"])


def test_the_authors_text(tmp_path):
    path = tmp_path / "vgg16.graph.txt"
    path.write_text(pipedream_vgg16.text())
    found = profiles.load_profile(path)
    assert (found.model, found.source, found.batch, found.minibatches) == ("vgg16", "published", None, None)
    assert len(found.layers) == 40  # node1, the input, is none
    assert found.layers[0] == Layer("node2 Conv2d", 22.307 / 1e3, 24.613 / 1e3, 1644167168.0, 7168.0)
    assert found.layers[-1] == Layer("node41 Linear", 0.393 / 1e3, 0.548 / 1e3, 512000.0, 16388000.0)
    assert found.input_bytes == 77070336 and found.seconds == pytest.approx(0.672535, abs=1e-12)
    # node32's outputs are used by node33, which takes their size, and by node34: both cross the cut behind node33
    assert [found.layers[node - 2].activation_bytes for node in (32, 33, 34)] == [12845056, 4, 12845056]
    assert {edge for edge in found.uses if 30 in edge} == {(29, 30), (30, 31), (30, 32)}
    assert Downsets.of(found).leaving[31:34].tolist() == [12845056, 12845060, 12845056]
    parameters = re.findall(r"parameter_size=([\d.]+)", pipedream_vgg16.text())
    assert sum(layer.parameter_bytes for layer in found.layers) == sum(map(float, parameters))


def node(number: int, name: str = "Linear", activation: str = "8.000") -> str:
    times = "forward_compute_time=1.000, backward_compute_time=2.000"
    return f"node{number} -- {name} -- {times}, activation_size={activation}, parameter_size=4.000"


def test_branches_lists_and_unused_nodes():
    nodes = [node(10), node(2, "Add(1)"), node(9, activation="[8.0; 16.0]"), node(1, "Input0")]
    edges = [(1, 9), (9, 10), (9, 2), (10, 2), (2, 4)]
    lines = [*nodes, node(4, "__getitem__(1)"), *(f"\tnode{source} -- node{user}" for source, user in edges)]
    parsed = profile.parse_profile("\n".join(lines), "x")
    assert [layer.name for layer in parsed.layers] == ["node9 Linear", "node10 Linear", "node2 Add"]
    assert [layer.activation_bytes for layer in parsed.layers] == [24, 8, 8]
    assert sorted(parsed.edges) == [(0, 1), (0, 2), (1, 2)]
    assert Downsets.of(parsed).leaving.tolist() == [0, 24, 32, 0]  # node9's outputs cross two cuts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (node(1) + "\nsomething", "line 2: neither a node"),
        (node(1, activation="-3"), "layers.0.activation_bytes=-3.0"),
        (node(1) + "\n\tnode1 -- node2", "names node2, which no line describes"),
        ("\n".join([node(1), node(2), "\tnode1 -- node2", "\tnode2 -- node1"]), "make a cycle"),
    ],
)
def test_text_that_cannot_be_read(tmp_path, text, words):
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(InputError) as refusal:
        profiles.load_profile(path)
    assert words in str(refusal.value) and str(refusal.value).startswith(str(path))


def test_an_estimate_has_the_devices_seconds_and_the_models_bytes():
    model = models.build_model("mnist_mlp", (1, 28, 28), 10, 0, "meta")
    seconds = block_seconds(model, (1, 28, 28), 32, DEVICE)
    found = profiles.estimate_profile(model, seconds, torch.zeros(32, 1, 28, 28), "made up", "mnist_mlp")
    assert [layer.name for layer in found.layers] == [name for name, _ in model.named_children()]
    assert [layer.forward_s for layer in found.layers] == seconds.forward
    assert [layer.backward_s for layer in found.layers] == seconds.backward
    assert [layer.activation_bytes for layer in found.layers][-1] == 32 * 10 * 4
    assert sum(layer.parameter_bytes for layer in found.layers) == 4 * sum(p.numel() for p in model.parameters())
    assert (found.batch, found.source, found.input_bytes, found.hardware) == (32, "estimated", 32 * 784 * 4, "made up")
    with pytest.raises(ValueError):
        profiles.estimate_profile(model, BlockSeconds([1.0], [1.0]), torch.zeros(32, 1, 28, 28), "made up")


def awkward() -> nn.Sequential:
    """A frozen block and one without parameters first; batch norm, dropout, and an activation alone behind."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        blocks = OrderedDict(
            flat=nn.Flatten(),
            frozen=nn.Linear(INPUTS, INPUTS),
            norm=nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5)),
            drop=nn.Dropout(0.5),
            relu=nn.ReLU(),
            last=nn.Linear(5, CLASSES),
        )
    blocks["frozen"].requires_grad_(False)
    return nn.Sequential(blocks)


def test_measured_layers():
    model, device = awkward(), torch.device("cpu")
    found = profiler.measure_layers(model, split().minibatches(4, 1, 0), functional.cross_entropy, device, 3, 1)
    assert [layer.name for layer in found] == ["flat", "frozen", "norm", "drop", "relu", "last"]
    assert all(layer.forward_s > 0 for layer in found)
    assert [layer.activation_bytes for layer in found] == [4 * 4 * width for width in (6, 6, 5, 5, 5, 3)]
    assert [layer.parameter_bytes for layer in found] == [0, 0, 4 * (6 * 5 + 5 + 10), 0, 0, 4 * (5 * 3 + 3)]


class Script:
    """A device whose stretches take what a list says."""

    def __init__(self, seconds):
        self.seconds, self.done = iter(seconds), []

    def start(self):
        self.done = []

    def __enter__(self):
        self.done.append(next(self.seconds))

    def __exit__(self, *_):
        pass


def test_block_by_block_is_the_models_own_backward_pass():
    model, x, y = awkward(), *split().minibatches(8, 1, 0)[0]
    torch.manual_seed(3)
    functional.cross_entropy(model(x), y).backward()
    whole = {name: p.grad for name, p in model.named_parameters()}
    assert whole["frozen.weight"] is None
    other, watch = awkward(), Script(range(100))
    torch.manual_seed(3)
    profiler.run_minibatch(list(other.children()), x, y, functional.cross_entropy, watch)
    assert watch.done == list(range(12))
    for name, parameter in other.named_parameters():
        assert whole[name] is parameter.grad or torch.equal(whole[name], parameter.grad)


def test_medians_after_the_warm_up(monkeypatch):
    """Stretches of a minibatch: forward of each block, then backward, the last block first."""
    rows = [[90.0] * 4, [1.0, 2.0, 30.0, 10.0], [3.0, 9.0, 50.0, 20.0], [2.0, 3.0, 40.0, 60.0]]

    class Rows:
        def __init__(self, device):
            self.rows = iter(rows)

        def start(self):
            pass

        def seconds(self):
            return next(self.rows)

    monkeypatch.setattr(profiler, "Watch", Rows)
    monkeypatch.setattr(profiler, "run_minibatch", lambda *_: [8, 4])
    model = nn.Sequential(OrderedDict(a=nn.Linear(INPUTS, 2), b=nn.ReLU()))
    found = profiler.measure_layers(
        model, split().minibatches(4, 1, 0), functional.cross_entropy, torch.device("cpu"), 3, 1
    )
    assert found == [Layer("a", 2.0, 20.0, 8, 4 * (2 * INPUTS + 2)), Layer("b", 3.0, 40.0, 4, 0)]


def test_stretches_on_a_gpu_are_between_events(monkeypatch):
    class Event:
        clock = 0.0

        def record(self):
            self.at = Event.clock

        def synchronize(self):
            pass

        def elapsed_time(self, later):
            return 1e3 * (later.at - self.at)

    monkeypatch.setattr(profiler, "DeviceTimes", lambda: DeviceTimes(Event))
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    watch = profiler.Watch(torch.device("cuda"))
    for took in (0.25, 0.5):
        watch.start()
        for seconds in (took, 1.0):
            with watch:
                Event.clock += seconds
            Event.clock += 7.0  # between stretches
        assert watch.seconds() == pytest.approx([took, 1.0])
    assert len(waited) == 2


def test_the_usual_data_set(monkeypatch):
    """The one of most experiments; without any, the one in the model's name, else the smallest that fits."""
    assert (profiler.usual_dataset("vgg16"), profiler.usual_dataset("lstm_ptb")) == ("cifar10", "ptb")
    monkeypatch.setattr(profiler.files, "group_names", lambda group: [])
    assert profiler.usual_dataset("softmax") == "mnist"
    assert profiler.usual_dataset("vgg16") == "cifar10"  # 28x28 is too small
    assert profiler.usual_dataset("vgg16_imagenet") == "imagenet"
    with pytest.raises(InputError, match="unknown model 'vgg'"):
        profiler.usual_dataset("vgg")


def test_a_profile_names_its_hardware_and_counts_real_classes():
    given = {"classes": 20, "images": 40, "test_images": 20, "image_size": 67}
    found = profiler.profile_model("alexnet", "imagenet", 2, 1, 0, "cpu", {}, given)
    assert found.hardware.startswith("cpu-") and f"torch {torch.__version__}" in found.hardware
    assert f"{torch.get_num_threads()} thread" in found.hardware
    assert (found.model, found.batch, found.minibatches, found.warmup) == ("alexnet", 2, 1, 0)
    assert found.layers[-1].activation_bytes == 2 * 20 * 4 and found.input_bytes == 2 * 3 * 67 * 67 * 4
    profiles.check_model(found, ["conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7", "fc8"])
    assert replace(found, layers=found.layers[:1]).seconds == found.layers[0].seconds


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("resnet20", "mnsit", 4, 1, 0), "unknown data set 'mnsit'; valid: mnist"),
        (("lstm_ptb", "mnist", 4, 1, 0), "model lstm_ptb takes text, and mnist is images; must be of ptb"),
        (("mnist_mlp", "mnist", 0, 1, 0), "batch=0: must be 1 or more"),
        (("mnist_mlp", "mnist", 10**7, 1, 0), "batch=10000000: more than the"),
        (("mnist_mlp", "mnist", 4, 1, 0, "cpu", {"width": 3}), "has no option 'model.width'"),
    ],
)
def test_wrong_arguments_of_profile_model(arguments, words):
    with pytest.raises(InputError) as refusal:
        profiler.profile_model(*arguments)
    assert words in str(refusal.value)
