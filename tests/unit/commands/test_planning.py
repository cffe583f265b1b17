"""`repro profile` and `repro partition`: what they print, and one clear line for what they refuse."""

from __future__ import annotations

import json
import math

import pytest
import torch

from repro.cli import main
from repro.pipeline import profile as profiles
from repro.pipeline.partition import partition
from tests.support import pipedream_vgg16


@pytest.fixture
def vgg16(tmp_path):
    path = tmp_path / "vgg16.graph.txt"
    path.write_text(pipedream_vgg16.text())
    return path


@pytest.fixture(autouse=True)
def threads():
    """`repro profile` sets torch's for the whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_partition_as_json(vgg16, capsys):
    arguments = ["--machines", "8", "--bandwidth", "3.125e9", "--cost-model", "released-sum", "--activations", "off"]
    assert main(["partition", str(vgg16), *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["pipeline_s"] == pytest.approx(0.09175018302222222, abs=1e-9)
    assert found["data_parallel_s"] == pytest.approx(0.16154709964, abs=1e-9)
    assert (found["optima"], found["config"], found["noam"]) == (3, "6-1-1", 2)
    assert (found["machines"], found["bandwidths_Bps"]) == ([8], [3.125e9])
    assert (found["model"], found["cost_model"], found["activations"], found["straight"]) == (
        "vgg16",
        "released-sum",
        False,
        False,
    )
    first, *_, last = found["stages"]
    assert first["first"] == 0 and first["first_name"] == "node2 Conv2d" and first["replicas"] == 6
    assert last["last"] == 39 and last["last_name"] == "node41 Linear" and last["seconds"] > 0
    assert found["cuts"] == [stage["first"] for stage in found["stages"][1:]]


def test_partition_for_people(vgg16, capsys):
    assert main(["partition", str(vgg16), "--machines", "4", "--bandwidth", "1.25e9", "--straight"]) == 0
    text = capsys.readouterr().out
    assert "cost model paper, activations on" in text and "config     1-1-1-1, NOAM 4" in text
    assert sum(line.split()[:1] == [str(index)] for index, line in enumerate(text.splitlines()[4:8])) == 4


def test_partition_on_two_levels(vgg16, capsys):
    assert main(["partition", str(vgg16), "--machines", "4,2", "--bandwidth", "1e10,1e9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = partition(profiles.read(vgg16), (4, 2), (1e10, 1e9))
    assert found["pipeline_s"] == expected.pipeline_s and found["config"] == expected.layout.config
    assert sum(stage["replicas"] for stage in found["stages"]) == math.prod(found["machines"]) == 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--machines", "41", "--bandwidth", "1e9", "--straight"], "41 stages are more than the 40 layers"),
        (["--machines", "4,2", "--bandwidth", "1e9"], "machines=4,2 on 2 levels"),
        (["--machines", "4", "--bandwidth", "1e9,1e9"], "machines=4 on 1 levels"),
        (["--machines", "4", "--bandwidth", "0"], "bandwidth=0.0: must be numbers above 0"),
        (["--machines", "4", "--bandwidth=-1e9"], "bandwidth=-1000000000.0"),
        (["--machines", "4", "--bandwidth", "fast"], "--bandwidth fast: must be numbers, in bytes a second"),
        (["--machines", "four", "--bandwidth", "1"], "--machines four: must be whole numbers"),
        (["--machines", "0", "--bandwidth", "1"], "machines=0"),
        (["--machines", "4", "--bandwidth", "1", "--cost-model", "pepar"], "unknown cost model 'pepar'; valid: paper"),
    ],
)
def test_partition_refuses(vgg16, capsys, arguments, words):
    assert main(["partition", str(vgg16), *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and words in said.err and said.err.count("\n") == 1


def test_partition_refuses_files_that_are_no_profile(tmp_path, capsys):
    network = ["--machines", "4", "--bandwidth", "1e9"]
    (tmp_path / "some.yaml").write_text("name: here\n")
    for name, words in (("none.json", "no such profile"), ("some.yaml", "not a profile")):
        assert main(["partition", str(tmp_path / name), *network]) == 2
        said = capsys.readouterr()
        assert words in said.err and name in said.err and said.err.count("\n") == 1


def test_what_argparse_refuses(vgg16, capsys):
    for arguments in (["--machines", "4"], ["--machines", "4", "--bandwidth", "1", "--activations", "maybe"]):
        with pytest.raises(SystemExit) as ended:
            main(["partition", str(vgg16), *arguments])
        assert ended.value.code == 2 and capsys.readouterr().err.startswith("repro: error: ")


def test_profile_then_partition(tmp_path, capsys):
    path = tmp_path / "mlp.json"
    short = ["--minibatches", "2", "--warmup", "1", "--batch", "8", "--device", "cpu", "dataset.standin=always"]
    assert main(["profile", "mnist_mlp", *short, "--out", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(path.read_text())
    assert (found["model"], found["batch"], found["minibatches"], found["source"]) == ("mnist_mlp", 8, 2, "measured")
    assert "1 thread, torch" in found["hardware"]
    assert main(["partition", str(path), "--machines", "2", "--bandwidth", "1e6"]) == 0
    text = capsys.readouterr().out
    assert "mnist_mlp, measured, minibatch of 8, 2 after a warm-up of 1" in text and "fc1" in text


def test_profile_for_people(capsys):
    short = ["--minibatches", "1", "--warmup", "0", "--batch", "4", "--threads", "2", "dataset.standin=always"]
    assert main(["profile", "lstm_ptb", *short, "--device", "cpu", "model.hidden=8", "dataset.words=5000"]) == 0
    text = capsys.readouterr().out
    assert "decoder" in text and "together" in text and "2 threads" in text and "not saved" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["vgg"], "unknown model 'vgg'; valid: vgg"),
        (["mnist_mlp", "--batch", "0"], "batch=0"),
        (["mnist_mlp", "--minibatches", "0"], "minibatches=0"),
        (["mnist_mlp", "--device", "tpu"], "--device tpu: must be auto, cpu or cuda"),
        (["mnist_mlp", "--threads", "0"], "--threads 0"),
        (["mnist_mlp", "--dataset", "ptb"], "model mnist_mlp takes images, and ptb is text"),
        (["mnist_mlp", "workers=2"], "override 'workers=2': must be model.OPTION=value or dataset.OPTION=value"),
        (["mnist_mlp", "model.width"], "override 'model.width'"),
        (["mnist_mlp", "model.width={"], "its value cannot be read"),
        (["mnist_mlp", "model.width=3"], "has no option 'model.width'"),
        (["mnist_mlp", "--out", "no/such/folder/p.json"], "there is no folder"),
    ],
)
def test_profile_refuses(capsys, arguments, words):
    assert main(["profile", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and words in said.err and said.err.count("\n") == 1


def test_profile_refuses_a_gpu_where_there_is_none(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["profile", "mnist_mlp", "--device", "cuda"]) == 2
    assert "no working GPU" in capsys.readouterr().err
