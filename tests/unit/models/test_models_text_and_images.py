"""The models of eager-SGD and gTop-k: forms, FLOPs, and the state that an LSTM carries."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from repro import data, models
from repro.models.lstm_ucf101 import LastOutput
from repro.testing import small
from repro.training.device_times import block_flops
from repro.training.evaluation.evaluate import weights_digest
from repro.training.model_shard import ModelShard, reset_state
from tests.support.probes import check, composed

# --- eager-SGD


def test_resnet32_projects_in_all_three_stages():
    model = models.build_model("resnet32", (3, 32, 32), 10, 0)
    for name, block in model.named_children():
        if name.startswith("stage"):
            assert isinstance(block.shortcut, nn.Sequential if name.endswith("_1") else nn.Identity), name
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


# LSTM


def test_an_lstm_with_one_bias_equals_one_with_two_of_which_one_is_zero():
    torch.manual_seed(0)
    ours, theirs, x = LastOutput(5, 7), nn.LSTM(5, 7, batch_first=True), torch.randn(3, 11, 5)
    with torch.no_grad():
        assert ours.bias[7:14].eq(1).all() and ours.bias.sum() == 7, "the forget gate's"
        ours.bias.copy_(torch.randn(28))
        for name, mine in (("weight_ih", ours.weight_ih), ("weight_hh", ours.weight_hh), ("bias_ih", ours.bias)):
            getattr(theirs, f"{name}_l0").copy_(mine)
        theirs.bias_hh_l0.zero_()
    assert torch.equal(ours(x), theirs(x)[0][:, -1])
    ours(x).sum().backward()
    theirs(x)[0][:, -1].sum().backward()
    assert torch.allclose(ours.bias.grad, theirs.bias_hh_l0.grad)
    assert torch.allclose(ours.weight_hh.grad, theirs.weight_hh_l0.grad)


def test_the_output_is_that_of_the_last_frame():
    model = models.build_model("lstm_ucf101", (4, 3), 5, 0, hidden=8, dense=6)
    x = torch.randn(2, 9, 3)
    other = x.clone()
    other[:, -1] += 1
    assert model(x).shape == (2, 5) and not torch.equal(model(x), model(other))
    assert model(torch.zeros(2, 1, 3)).shape == (2, 5), "any number of frames"


def test_flops_grow_with_the_sequence():
    def counted(name: str, shape: tuple[int, ...], classes: int, **options) -> list[int]:
        return block_flops(models.build_model(name, shape, classes, 0, "meta", **options), shape, 4)

    short, long = (counted("lstm_ucf101", (steps, 16), 10, hidden=32, dense=8) for steps in (10, 20))
    assert short[0] == 4 * 10 * 2 * 4 * 32 * (16 + 32) and long[0] == 2 * short[0] and short[1:] == long[1:]
    assert counted("hyperplane", (64,), 1) == [4 * 2 * 64]
    sizes = {"width": 16, "layers": 1, "heads": 2, "feed_forward": 32}
    few, many = (counted("transformer", (2 * words,), 100, **sizes) for words in (8, 16))
    assert few[0] == 0 and many[-1] == 2 * few[-1] and 2 * few[1] < many[1] < 2.5 * few[1]


# Transformer


SMALL = {"width": 16, "layers": 2, "heads": 2, "feed_forward": 24, "dropout": 0.0}


def test_padding_and_later_words_change_nothing():
    model = models.build_model("transformer", (12,), 30, 0, **SMALL)
    source, target = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 8, 9, 10]])
    logits = model(torch.cat([source, target], 1))
    padded = [functional.pad(half, (0, 3)) for half in (source, target)]
    longer = model(torch.cat(padded, 1))
    assert logits.shape == (4, 30) and torch.allclose(longer[:4], logits, atol=1e-5)
    target[0, 3] = 11
    changed = model(torch.cat([source, target], 1))
    assert torch.allclose(changed[:3], logits[:3], atol=1e-6) and not torch.allclose(changed[3], logits[3], atol=1e-3)
    source[0, 1] = 12
    assert not torch.allclose(model(torch.cat([source, target], 1))[:1], changed[:1], atol=1e-4)


def test_padding_stays_zero_between_blocks():
    model = models.build_model("transformer", (12,), 30, 0, **SMALL)
    x = torch.tensor([[5, 2, 0, 1, 8, 9], [5, 6, 2, 1, 8, 0]])
    for block in model[:-1]:
        x = block(x)
        assert x.shape == (2, 6, 16)
        assert (x == 0).all(-1).tolist() == [[False, False, True] + [False] * 3, [False] * 5 + [True]]


# --- gTop-k


def test_resnet50_halves_the_sides_in_the_middle_convolution():
    model = models.build_model("resnet50", (3, 64, 64), 10, 0, "meta")
    names = [name for name, _ in model.named_children()]
    assert names[1:4] == ["stage1_1", "stage1_2", "stage1_3"] and names[-2:] == ["stage4_3", "fc"]
    first = model.stage2_1
    assert (first.conv1.stride, first.conv2.stride, first.conv3.stride) == ((1, 1), (2, 2), (1, 1))
    assert isinstance(model.stage1_1.shortcut, nn.Sequential) and isinstance(model.stage1_2.shortcut, nn.Identity)


def test_options_of_a_configuration():
    options = {"name": "lstm_ptb", "hidden": 8, "layers": None, "dropout": 0.5}
    config, words = check(composed("fig4-mnist") | {"model": options}), data.load_shapes("ptb")
    model = models.model_for(config, words, "meta")
    assert model.lstm2[0].lstm.hidden_size == 8 and model.lstm1[1].p == 0.5


def test_flops_are_counted_for_all_of_them():
    count = lambda name, shape, classes, batch, **options: block_flops(  # noqa: E731
        models.build_model(name, shape, classes, 0, "meta", **options), shape, batch
    )
    assert sum(count("resnet50", (3, 224, 224), 1000, 1)) == pytest.approx(2 * 4.09e9, rel=0.01)
    assert sum(count("vgg16", (3, 32, 32), 10, 2)) == pytest.approx(2 * 2 * 313.2e6, rel=0.01)
    # a word: 8 hidden^2 multiply-adds a layer (four gates, input and state), and the decoder
    assert count("lstm_ptb", (7,), 50, 3, hidden=16) == [0, 21 * 16 * 16**2, 21 * 16 * 16**2, 21 * 2 * 16 * 50]


# The state that an LSTM carries


def lstm(words: int = 30, **options) -> nn.Sequential:
    return models.build_model("lstm_ptb", (5,), words, 0, **{"hidden": 8, "dropout": 0.0, **options})


def test_a_sequence_continues_the_previous_one():
    model, words = lstm().eval(), torch.randint(30, (3, 10), generator=torch.Generator().manual_seed(0))
    whole = model(words).view(3, 10, 30)
    reset_state(model)
    halves = [model(half.contiguous()).view(3, 5, 30) for half in words.split(5, 1)]
    torch.testing.assert_close(torch.cat(halves, 1), whole)
    reset_state(model)
    assert torch.equal(model(words[:, :5].contiguous()).view(3, 5, 30), halves[0])
    reset_state(model)
    assert model(words[:2]).shape == (20, 30), "another number of streams after a reset"


def test_gradients_stop_at_the_beginning_of_a_sequence():
    model, words = lstm(), torch.randint(30, (3, 5))
    model(words)
    assert not model.lstm1[0].hidden.requires_grad and model.lstm1[0].hidden.abs().sum() > 0
    model(words).sum().backward()  # would fail with a second pass through freed buffers
    model(words).sum().backward()


def test_the_state_is_each_ranks_own_and_no_part_of_its_weights():
    part, words = ModelShard(lstm(), small.SGD, torch.device("cpu")), torch.randint(30, (3, 5))
    before = weights_digest(part.snapshot())
    part.model(words)
    assert part.stateful and weights_digest(part.snapshot()) == before
    saved = part.state_dict()
    assert sorted(saved["carried"]) == [f"lstm{i}.0.{name}" for i in (1, 2) for name in ("cell", "hidden")]
    expected = part.model(words)
    fresh = ModelShard(lstm(), small.SGD, torch.device("cpu"))
    fresh.load_state_dict(saved)
    assert torch.equal(fresh.model(words), expected)
    fresh.reset_state()
    assert not torch.equal(fresh.model(words), expected)


def test_the_models_and_data_sets_have_configurations():
    from repro.experiment import files, plugins

    inputs = {
        "text": ((5,), 30),
        "images": ((3, 227, 227), 10),
        "vectors": ((5,), 1),
        "sequences": ((5, 3), 10),
        "sentence pairs": ((8,), 30),
        "captioned clips": ((5, 4), 30),
    }
    assert models.model_names() == files.group_names("model") and sorted(data.dataset_names()) == files.group_names(
        "dataset"
    )
    for name in models.model_names():
        options = plugins.plugin_maker("model")(files.group_file("model", name)).options
        models.build_model(name, *inputs[models.input_kind(name)], 0, "meta", **options)
