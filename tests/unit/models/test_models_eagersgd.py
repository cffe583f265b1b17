"""The models of eager-SGD's Table 1 and Figure 3: published parameter counts, forms, bad options."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from repro import models
from repro.models.lstm_ucf101 import LastOutput
from repro.timing.device import block_flops


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
