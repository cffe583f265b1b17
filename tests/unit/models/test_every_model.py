"""Every model: published parameter counts, shapes between blocks, weights drawn from the seed, refused inputs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from repro import models
from repro.core.errors import InputError
from repro.training.evaluation.evaluate import weights_digest
from repro.training.model_shard import carries_state

PHOTO, TINY = (3, 224, 224), (3, 32, 32)


@pytest.mark.parametrize("name, shape, classes, options, parameters, blocks", [
    ("alexnet", (3, 227, 227), 1000, {}, 60_965_224, 8),
    ("alexnet_cifar", TINY, 10, {}, 3_172_554, 8),
    ("cifar100_cnn", TINY, 100, {}, 151_428, 5),
    ("cifar100_convex", TINY, 100, {}, 151_428, 5),
    ("googlenet", PHOTO, 1000, {}, 6_998_552, 12),
    ("googlenet", TINY, 10, {}, 6_998_552 - 990 * 1025, 12),
    ("hyperplane", (8192,), 1, {}, 8_193, 1),
    ("inception_v3", (3, 299, 299), 1000, {}, 23_834_568, 17),
    ("inception_v3", (3, 299, 299), 1000, {"square": True}, 39_464_904, 17),
    ("lstm_ptb", (5,), 10_000, {}, 66_034_000, 4),
    ("lstm_ucf101", (7, 2048), 101, {}, 34_663_525, 3),
    ("mnist_mlp", (1, 28, 28), 10, {}, 648_010, 3),
    ("resnet8", TINY, 10, {}, 75_290, 5),
    ("resnet8", TINY, 10, {"width": 0.5}, 19_218, 5),
    ("resnet18", PHOTO, 1000, {}, 11_689_512, 10),
    ("resnet20", TINY, 10, {}, 269_722, 11),
    ("resnet32", TINY, 10, {}, 467_194, 17),
    ("resnet50", PHOTO, 1000, {}, 25_557_032, 18),
    ("resnet50", PHOTO, 1000, {"outputs": 1001}, 25_559_081, 18),
    ("s2vt", (4, 4097), 12_594, {}, 36_960_094, 5),
    ("s2vt", (4, 4097), 12_594, {"vocabulary": 46_170}, 87_357_670, 5),
    ("softmax", (1, 28, 28), 10, {}, 7_850, 1),
    ("transformer", (26,), 10_000, {}, 54_388_496, 14),
    ("vgg16", TINY, 10, {}, 14_728_266, 14),
    ("vgg16", TINY, 10, {"width": 0.25}, 924_186, 14),
    ("vgg16_imagenet", PHOTO, 1000, {}, 138_357_544, 16),
    ("vgg19", PHOTO, 1000, {}, 143_667_240, 19),
    ("vgg19", PHOTO, 21_841, {}, 229_052_817, 19),
    ("vgg19", TINY, 10, {"width": 0.125}, 614_738, 19),
])  # fmt: skip
def test_parameters_and_blocks(name, shape, classes, options, parameters, blocks):
    model = models.build_model(name, shape, classes, 0, "meta", **options)
    assert isinstance(model, nn.Sequential) and len(model) == blocks
    assert sum(p.numel() for p in model.parameters()) == parameters
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == (6_500 if name == "cifar100_convex" else parameters)
    assert carries_state(model) == (name == "lstm_ptb")
    if name == "transformer":  # its input has two kinds of words: test_models_text_and_images
        return
    x = torch.empty(2, *shape, device="meta", dtype=torch.int64 if models.takes_text(name) else None)
    for block in model:
        x = block(x)
        assert isinstance(x, torch.Tensor) and x.is_floating_point()
    rows = 2 * shape[0] if name in ("s2vt", "lstm_ptb") else 2  # a word a step
    assert x.shape == (rows, options.get("vocabulary") or options.get("outputs") or classes)


@pytest.mark.parametrize("name, shape, options", [
    ("alexnet", (3, 67, 67), {}),
    ("alexnet_cifar", (3, 15, 15), {"width": 0.125}),
    ("cifar100_cnn", (3, 8, 8), {}),
    ("cifar100_convex", (1, 8, 8), {}),
    ("lstm_ucf101", (5, 6), {"hidden": 8, "dense": 7}),
    ("resnet18", TINY, {}),
    ("resnet8", (3, 16, 16), {"width": 0.5}),
    ("resnet20", (3, 16, 16), {}),
    ("resnet32", (3, 16, 16), {}),
    ("resnet50", TINY, {}),
    ("googlenet", TINY, {"width": 0.125}),
    ("s2vt", (4, 6), {"hidden": 8, "embedding": 6, "dropout": 0.0}),
    ("softmax", (7,), {}),
    ("transformer", (8,), {"width": 16, "layers": 2, "heads": 2, "feed_forward": 24}),
    ("vgg16", (3, 32, 40), {"width": 0.125}),
    ("vgg19", TINY, {"width": 0.125}),
])  # fmt: skip
def test_the_same_weights_from_the_same_seed_and_small_inputs(name, shape, options):
    one, two, other = (models.build_model(name, shape, 9, seed, **options) for seed in (3, 3, 4))
    assert weights_digest(one.state_dict()) == weights_digest(two.state_dict())
    assert (weights_digest(one.state_dict()) == weights_digest(other.state_dict())) == (
        name == "softmax"
    )  # which starts from zeros
    if len(shape) != 1 or name == "softmax":  # not of words
        assert one.eval()(torch.ones(2, *shape)).isfinite().all()


@pytest.mark.parametrize("name, shape, options, complaint", [
    ("alexnet", (3, 66, 80), {}, "model alexnet takes images of at least 67x67 pixels, not 66x80"),
    ("hyperplane", (3, 8, 8), {}, "model hyperplane takes vectors of .dimensions,., not inputs of"),
    ("inception_v3", (3, 75, 75), {"aux": True}, "model 'inception_v3' has no option 'model.aux'; valid: model.square"),
    ("inception_v3", (3, 75, 75), {"square": 3}, "model.square=3: must be true or false"),
    ("lstm_ptb", (35,), {"hidden": 0}, "model.hidden=0: must be 1 or more"),
    ("lstm_ptb", (35,), {"dropout": 1}, "model.dropout=1: must be below 1"),
    ("lstm_ptb", (3, 8, 8), {}, r"takes sequences of words \(steps,\), not inputs of \(3, 8, 8\)"),
    ("lstm_ucf101", (64,), {}, "takes sequences of .steps, features., not inputs of"),
    ("resnet50", (3, 64, 64), {"outputs": 9}, "model.outputs=9: must be a whole number, 10 .the classes. or more"),
    ("s2vt", (5,), {}, "takes captioned clips .steps, features . 1., not inputs of"),
    ("s2vt", (5, 9), {"vocabulary": 9}, "model.vocabulary=9: must be 10 .the data set's words. or more, or null"),
    ("transformer", (9,), {}, "takes sentence pairs"),
    ("transformer", (8,), {"width": 30, "heads": 4}, "model.width=30: must be even and a multiple of model.heads=4"),
    ("vgg16", (3, 31, 32), {}, "model vgg16 takes images of at least 32x32 pixels, not 31x32"),
    ("vgg166", TINY, {}, "unknown model 'vgg166'; nearest: vgg16,"),
])  # fmt: skip
def test_what_a_model_cannot_be(name, shape, options, complaint):
    with pytest.raises(InputError, match=complaint):
        models.build_model(name, shape, 10, 0, "meta", **options)
