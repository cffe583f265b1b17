"""The models of eager-SGD's Table 1 and Figure 3: published parameter counts, forms, bad options."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from repro import models
from repro.common.errors import InputError
from repro.evaluation.evaluate import digest
from repro.models.lstm_ucf101 import LastOutput
from repro.timing.device import block_flops
from repro.training.model_shard import ModelShard, carries_state
from tests.support.small import SGD


@pytest.mark.parametrize(
    "name, shape, classes, options, parameters, blocks",
    [
        ("hyperplane", (8192,), 1, {}, 8_193, 1),
        ("resnet32", (3, 32, 32), 10, {}, 467_194, 17),
        ("resnet32", (3, 32, 32), 100, {}, 467_194 + 90 * 65, 17),
        ("resnet50", (3, 224, 224), 1000, {"outputs": 1001}, 25_559_081, 18),
        ("resnet50", (3, 224, 224), 1000, {"outputs": None}, 25_557_032, 18),
        ("lstm_ucf101", (187, 2048), 101, {}, 34_663_525, 3),
        ("transformer", (26,), 10_000, {}, 54_388_496, 14),
    ],
)
def test_parameters_of_table_1(name, shape, classes, options, parameters, blocks):
    model = models.build(name, shape, classes, 0, "meta", **options)
    assert sum(p.numel() for p in model.parameters()) == parameters and len(model) == blocks
    assert all(p.requires_grad for p in model.parameters())
    # a part of a real rank sends exactly these
    small = models.build("hyperplane", (16,), 1, 0)
    assert ModelShard(small, SGD, torch.device("cpu")).size == 17


@pytest.mark.parametrize(
    "name, shape, classes, options",
    [
        ("resnet32", (3, 16, 16), 4, {}),
        ("lstm_ucf101", (5, 6), 4, {"hidden": 8, "dense": 7}),
        ("transformer", (8,), 20, {"width": 16, "layers": 2, "heads": 2, "feed_forward": 24}),
    ],
)
def test_the_same_weights_from_the_same_seed(name, shape, classes, options):
    one, two, other = (models.build(name, shape, classes, seed, **options) for seed in (3, 3, 4))
    assert digest(one.state_dict()) == digest(two.state_dict()) != digest(other.state_dict())
    assert not carries_state(one)


def test_resnet32_projects_in_all_three_stages():
    model = models.build("resnet32", (3, 32, 32), 10, 0)
    for name, block in model.named_children():
        if name.startswith("stage"):
            assert isinstance(block.shortcut, nn.Sequential if name.endswith("_1") else nn.Identity), name
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_more_outputs_than_classes():
    model = models.build("resnet50", (3, 32, 32), 4, 0, "meta", outputs=5)
    assert model(torch.empty(2, 3, 32, 32, device="meta")).shape == (2, 5)


# LSTM


def test_one_bias_is_the_lstm_with_two_of_which_one_is_zero():
    torch.manual_seed(0)
    ours, theirs, x = LastOutput(5, 7), nn.LSTM(5, 7, batch_first=True), torch.randn(3, 11, 5)
    with torch.no_grad():
        assert ours.bias[7:14].eq(1).all() and ours.bias.sum() == 7, "the forget gate's"
        ours.bias.copy_(torch.randn(28))
        for mine, other in (
            (ours.weight_ih, theirs.weight_ih_l0),
            (ours.weight_hh, theirs.weight_hh_l0),
            (ours.bias, theirs.bias_ih_l0),
        ):
            other.copy_(mine)
        theirs.bias_hh_l0.zero_()
    assert torch.equal(ours(x), theirs(x)[0][:, -1])
    ours(x).sum().backward()
    theirs(x)[0][:, -1].sum().backward()
    assert torch.allclose(ours.bias.grad, theirs.bias_hh_l0.grad) and torch.allclose(
        ours.weight_hh.grad, theirs.weight_hh_l0.grad
    )


def test_the_answer_is_that_of_the_last_frame():
    model = models.build("lstm_ucf101", (4, 3), 5, 0, hidden=8, dense=6)
    x = torch.randn(2, 9, 3)
    other = x.clone()
    other[:, -1] += 1
    assert model(x).shape == (2, 5) and not torch.equal(model(x), model(other))
    assert model(torch.zeros(2, 1, 3)).shape == (2, 5), "any number of frames"


def test_flops_grow_with_the_sequence():
    def counted(name: str, shape: tuple[int, ...], classes: int, **options) -> list[int]:
        return block_flops(models.build(name, shape, classes, 0, "meta", **options), shape, 4)

    short, long = (counted("lstm_ucf101", (steps, 16), 10, hidden=32, dense=8) for steps in (10, 20))
    assert short[0] == 4 * 10 * 2 * 4 * 32 * (16 + 32) and long[0] == 2 * short[0] and short[1:] == long[1:]
    assert counted("hyperplane", (64,), 1) == [4 * 2 * 64]
    sizes = {"width": 16, "layers": 1, "heads": 2, "feed_forward": 32}
    few, many = (counted("transformer", (2 * words,), 100, **sizes) for words in (8, 16))
    assert few[0] == 0 and many[-1] == 2 * few[-1] and 2 * few[1] < many[1] < 2.5 * few[1]


# Transformer


SMALL = {"width": 16, "layers": 2, "heads": 2, "feed_forward": 24, "dropout": 0.0}


def test_padding_and_later_words_change_nothing():
    model = models.build("transformer", (12,), 30, 0, **SMALL)
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
    model = models.build("transformer", (12,), 30, 0, **SMALL)
    x = torch.tensor([[5, 2, 0, 1, 8, 9], [5, 6, 2, 1, 8, 0]])
    for block in model[:-1]:
        x = block(x)
        assert x.shape == (2, 6, 16)
        assert (x == 0).all(-1).tolist() == [[False, False, True] + [False] * 3, [False] * 5 + [True]]


def test_a_transformer_learns_to_copy():
    model = models.build("transformer", (8,), 12, 0, **SMALL)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(60):
        words = torch.randint(4, 12, (32, 3), generator=generator)
        end, begin = torch.full((32, 1), 2), torch.full((32, 1), 1)
        x = torch.cat([words, end, begin, words], 1)
        loss = functional.cross_entropy(model(x), torch.cat([words, end], 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 2 and losses[-1] < 1.0


@pytest.mark.parametrize(
    "name, shape, options, complaint",
    [
        ("hyperplane", (3, 8, 8), {}, "model hyperplane takes vectors of .dimensions,., not inputs of"),
        ("lstm_ucf101", (64,), {}, "takes sequences of .steps, features., not inputs of"),
        ("lstm_ucf101", (9, 64), {"hidden": 0}, "model.hidden=0: must be a whole number"),
        ("lstm_ucf101", (9, 64), {"dense": 2.5}, "model.dense=2.5"),
        (
            "lstm_ucf101",
            (9, 64),
            {"layers": 2},
            "model 'lstm_ucf101' has no option 'model.layers'; valid: model.hidden",
        ),
        ("resnet50", (3, 64, 64), {"outputs": 9}, "model.outputs=9: must be a whole number, 10 .the classes. or more"),
        ("resnet50", (3, 64, 64), {"outputs": True}, "model.outputs=True"),
        ("transformer", (9,), {}, "takes sentence pairs"),
        (
            "transformer",
            (8,),
            {"width": 30, "heads": 4},
            "model.width=30: must be even and a multiple of model.heads=4",
        ),
        ("transformer", (8,), {"dropout": 1.0}, "model.dropout=1.0"),
        ("transformer", (8,), {"layers": "six"}, "model.layers=six"),
    ],
)
def test_bad_options(name, shape, options, complaint):
    with pytest.raises(InputError, match=complaint):
        models.build(name, shape, 10, 0, "meta", **options)
