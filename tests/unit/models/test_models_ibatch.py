"""The networks and data of the iBatch paper: counts of its Table 1, layers of its figures, narrow ones that train."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from PIL import Image
from torch.nn import functional

from repro import data, models
from repro.common.errors import InputError
from repro.evaluation.evaluate import digest
from repro.models import googlenet
from repro.testing.small import SGD
from repro.timing.device import block_flops
from repro.training.model_shard import ModelShard

IMAGE = (3, 224, 224)
CPU = torch.device("cpu")


def sizes(name: str, shape: tuple[int, ...], classes: int, **options) -> dict[str, int]:
    """Parameters of each block."""
    model = models.build(name, shape, classes, 0, "meta", **options)
    return {block: sum(p.numel() for p in module.parameters()) for block, module in model.named_children()}


def test_googlenet_s_count_from_its_table():
    """The derivation in the module: weights and biases of a module from its row of Table 1."""
    modules, inputs = {}, 192
    for name, (one, reduce3, three, reduce5, five, projection) in googlenet.MODULES.items():
        weights = inputs * (one + reduce3 + reduce5 + projection) + 9 * reduce3 * three + 25 * reduce5 * five
        modules[f"inception{name}"] = weights + one + reduce3 + three + reduce5 + five + projection
        inputs = one + three + five + projection
    found = sizes("googlenet", IMAGE, 1000)
    stem = {"conv1": 3 * 49 * 64 + 64, "conv2": 64 * 64 + 64 + 9 * 64 * 192 + 192}
    assert list(found.items()) == [*stem.items(), *modules.items(), ("fc", 1024 * 1000 + 1000)]
    assert (sum(stem.values()), sum(modules.values())) == (124_416, 5_849_136)
    # Table 1 of Szegedy et al. prints thousands of weights, rounded in its own way
    assert (modules["inception3a"], modules["inception5b"]) == (163_696, 1_444_080)


def test_vgg19_22k_is_vgg19_with_more_classes():
    """229M is exact with 21,841 classes: 20,841 more rows of 4,096 weights and a bias in fc8."""
    few, many = sizes("vgg19", IMAGE, 1000), sizes("vgg19", IMAGE, 21_841)
    assert {block for block in few if few[block] != many[block]} == {"fc8"}
    assert many["fc8"] - few["fc8"] == 20_841 * 4_097 == 85_385_577
    assert many["fc8"] == 21_841 * 4_097 and sum(many.values()) == 229_052_817


def test_vgg19_is_configuration_e():
    model = models.build("vgg19", IMAGE, 1000, 0, "meta")
    kinds = [[type(module).__name__ for module in block] for block in model]
    assert [names[-1] == "MaxPool2d" for names in kinds[:16]] == [i in (1, 3, 7, 11, 15) for i in range(16)]
    assert list(dict(model.named_children()))[14:] == ["conv5_3", "conv5_4", "fc6", "fc7", "fc8"]
    # what PipeDream's VGG16 has besides is three convolutions fewer
    vgg16 = sizes("vgg16_imagenet", IMAGE, 1000)
    assert 143_667_240 - sum(vgg16.values()) == (9 * 256 * 256 + 256) + 2 * (9 * 512 * 512 + 512)


def test_googlenet_s_feature_maps_and_figure_3():
    model, x, shapes = models.build("googlenet", IMAGE, 1000, 0, "meta"), torch.empty(1, *IMAGE, device="meta"), []
    for block in model:
        x = block(x)
        shapes.append(tuple(x.shape[1:3]))
    assert shapes == [(64, 56), (192, 28), (256, 28), (480, 14), (512, 14), (512, 14), (512, 14), (528, 14), (832, 7),
                      (832, 7), (1024, 7), (1000,)]  # fmt: skip
    flops, parameters = block_flops(model, IMAGE, 1), list(sizes("googlenet", IMAGE, 1000).values())
    # Figure 3 and its text: layer 2 computes much and has little to pull, the last layers the other way round
    work = [count / size for count, size in zip(flops, parameters)]
    assert max(flops) == flops[1] and work[1] > 30 * work[10] and work[11] == min(work)
    assert sum(flops) == pytest.approx(2 * 1.6e9, rel=0.02)  # 1.5 to 1.6 G multiply-adds are published


@pytest.mark.parametrize("name, options", [("googlenet", {"width": 0.125}), ("vgg19", {"width": 0.125})])
def test_narrow_ones_train_here_and_start_from_their_seed(name, options):
    one, two, other = (models.build(name, (3, 32, 32), 5, seed, **options) for seed in (3, 3, 4))
    assert digest(one.state_dict()) == digest(two.state_dict()) != digest(other.state_dict())
    torch.manual_seed(0)
    part, x, y = (
        ModelShard(one, SGD.model_copy(update={"lr": 0.01}), CPU),
        torch.randn(4, 3, 32, 32),
        torch.tensor([0, 1, 2, 3]),
    )
    for _ in range(2):
        loss = part.forward_backward(x, y, functional.cross_entropy, lambda name, block: nullcontext()).item()
        assert 0 < loss < 9 and all(p.grad is not None for p in part.parameters)
        part.update()
    assert part.weights.isfinite().all()


# ImageNet22K


def test_imagenet22k_s_sizes_without_its_images():
    found = data.shapes("imagenet22k")
    assert (len(found.train), found.classes, found.input_shape) == (14_197_122, 21_841, IMAGE)
    assert found.train.x.is_meta and not found.standin
    few = data.shapes("imagenet22k", classes=7, images=70, image_size=32)
    assert (len(few.train), few.classes, few.input_shape) == (70, 7, (3, 32, 32))


def test_imagenet22k_s_standin_is_named_so(tmp_path):
    found = data.load("imagenet22k", str(tmp_path), "always", image_size=16, images=20, test_images=10)
    assert (found.name, found.standin, found.classes) == ("imagenet22k-standin-seeded", True, 10)
    assert found.checksum != data.load("imagenet", str(tmp_path), "always", image_size=16, images=20).checksum


def test_imagenet22k_s_folders(tmp_path):
    for part, name in (("train", "n01"), ("train", "n02"), ("val", "n01"), ("val", "n02")):
        folder = tmp_path / "imagenet22k" / part / name
        folder.mkdir(parents=True)
        Image.new("RGB", (40, 40), (9, 99, 200)).save(folder / "one.JPEG")
    found = data.load("imagenet22k", str(tmp_path), "never", image_size=16)
    assert (found.name, found.standin, found.classes, len(found.train)) == ("imagenet22k-subset", False, 2, 2)
    assert data.load("imagenet22k", str(tmp_path), "never").input_shape == IMAGE
    (tmp_path / "imagenet22k" / "val").rename(tmp_path / "away")
    with pytest.raises(InputError, match=r"data set .imagenet22k. is incomplete: .*imagenet22k lacks val/"):
        data.load("imagenet22k", str(tmp_path))
