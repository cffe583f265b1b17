"""The models of iBatch and PipeDream: layers, feature maps, FLOPs, training steps, S2VT's decoding."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from PIL import Image
from torch.nn import functional

from repro import data, models
from repro.core.errors import InputError
from repro.data.readers.text import IGNORED
from repro.models import googlenet, vgg16_imagenet
from repro.models.s2vt import BOS, EOS, PAD
from repro.testing.small import SGD
from repro.training.device_times import block_flops
from repro.training.model_shard import ModelShard

# --- iBatch: counts of its Table 1, layers of its figures

IMAGE = (3, 224, 224)
CPU = torch.device("cpu")


def sizes(name: str, shape: tuple[int, ...], classes: int, **options) -> dict[str, int]:
    """Parameters of each block."""
    model = models.build_model(name, shape, classes, 0, "meta", **options)
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


def test_vgg19_is_configuration_e():
    model = models.build_model("vgg19", IMAGE, 1000, 0, "meta")
    kinds = [[type(module).__name__ for module in block] for block in model]
    assert [names[-1] == "MaxPool2d" for names in kinds[:16]] == [i in (1, 3, 7, 11, 15) for i in range(16)]
    assert list(dict(model.named_children()))[14:] == ["conv5_3", "conv5_4", "fc6", "fc7", "fc8"]


def test_googlenet_s_feature_maps_and_figure_3():
    model, x, shapes = (
        models.build_model("googlenet", IMAGE, 1000, 0, "meta"),
        torch.empty(1, *IMAGE, device="meta"),
        [],
    )
    for block in model:
        x = block(x)
        shapes.append(tuple(x.shape[1:3]))
    assert shapes == [(64, 56), (192, 28), (256, 28), (480, 14), (512, 14), (512, 14), (512, 14), (528, 14), (832, 7),
                      (832, 7), (1024, 7), (1000,)]  # fmt: skip
    flops, parameters = block_flops(model, IMAGE, 1), list(sizes("googlenet", IMAGE, 1000).values())
    # Figure 3 and its text: layer 2 computes much and has few parameters to pull, the last layers the opposite
    work = [count / size for count, size in zip(flops, parameters)]
    assert max(flops) == flops[1] and work[1] > 30 * work[10] and work[11] == min(work)
    assert sum(flops) == pytest.approx(2 * 1.6e9, rel=0.02)  # 1.5 to 1.6 G multiply-adds are published


# ImageNet22K


def test_imagenet22k_s_sizes_without_its_images():
    found = data.load_shapes("imagenet22k")
    assert (len(found.train), found.classes, found.input_shape) == (14_197_122, 21_841, IMAGE)
    assert found.train.x.is_meta and not found.standin
    few = data.load_shapes("imagenet22k", classes=7, images=70, image_size=32)
    assert (len(few.train), few.classes, few.input_shape) == (70, 7, (3, 32, 32))


def test_imagenet22k_s_folders(tmp_path):
    for part, name in (("train", "n01"), ("train", "n02"), ("val", "n01"), ("val", "n02")):
        folder = tmp_path / "imagenet22k" / part / name
        folder.mkdir(parents=True)
        Image.new("RGB", (40, 40), (9, 99, 200)).save(folder / "one.JPEG")
    found = data.load_dataset("imagenet22k", str(tmp_path), "never", image_size=16)
    assert (found.name, found.standin, found.classes, len(found.train)) == ("imagenet22k-subset", False, 2, 2)
    assert data.load_dataset("imagenet22k", str(tmp_path), "never").input_shape == IMAGE
    (tmp_path / "imagenet22k" / "val").rename(tmp_path / "away")
    with pytest.raises(InputError, match=r"data set .imagenet22k. is incomplete: .*imagenet22k lacks val/"):
        data.load_dataset("imagenet22k", str(tmp_path))


# --- PipeDream

S2VT = {"hidden": 8, "embedding": 6, "dropout": 0.0}


@pytest.mark.parametrize(("name", "side", "options"), [
    ("vgg16_imagenet", 32, {}),
    ("inception_v3", 75, {}),
    ("inception_v3", 75, {"square": True}),
    ("alexnet_cifar", 32, {"width": 0.25}),
    ("vgg16", 32, {"width": 0.125}),
    ("googlenet", 32, {"width": 0.125}),
    ("vgg19", 32, {"width": 0.125}),
])  # fmt: skip
def test_steps_on_images(monkeypatch, name, side, options):
    monkeypatch.setattr(vgg16_imagenet, "HIDDEN", 16)
    monkeypatch.setattr(vgg16_imagenet, "STAGES", ((8, 8), (8, 8), (16, 16, 16), (16, 16, 16), (16, 16, 16)))
    torch.manual_seed(0)
    model = models.build_model(name, (3, side, side), 5, 0, **options)
    part = ModelShard(model, SGD.model_copy(update={"lr": 0.01}), CPU)
    x, y, losses = torch.randn(4, 3, side, side), torch.tensor([0, 1, 2, 3]), []
    for _ in range(1 if side == 75 else 3):
        loss = part.forward_backward(x, y, functional.cross_entropy, lambda name, block: nullcontext())
        losses.append(loss.item())
        assert all(p.grad is not None for p in part.parameters)
        part.update()
    assert part.weights.isfinite().all() and 1 < losses[0] < 4 and all(0 < loss < 9 for loss in losses)


def test_work_of_inception_with_square_kernels():
    """Multiply-adds of an image, summed over the convolutions and the linear layer of the GeePS fork's prototxt."""
    square, usual = (
        models.build_model("inception_v3", (3, 299, 299), 1000, 0, "meta", square=of) for of in (True, False)
    )
    assert sum(block_flops(square, (3, 299, 299), 1)) == 2 * 9_699_541_600
    assert sum(block_flops(usual, (3, 299, 299), 1)) == pytest.approx(2 * 5.71e9, rel=0.01)


@pytest.mark.parametrize("square", [False, True])
def test_inceptions_feature_maps(square):
    model, x, shapes = models.build_model("inception_v3", (3, 299, 299), 1000, 0, "meta", square=square), None, {}
    x = torch.empty(1, 3, 299, 299, device="meta")
    for name, block in model.named_children():
        x = block(x)
        shapes[name] = tuple(x.shape[1:3])
    assert shapes["conv2b"] == (64, 73) and shapes["conv4a"] == (192, 35)
    assert [shapes[f"mixed5{i}"] for i in "bcd"] == [(256, 35), (288, 35), (288, 35)]
    assert [shapes[f"mixed6{i}"] for i in "abcde"] == [(768, 17)] * 5
    assert [shapes[f"mixed7{i}"] for i in "abc"] == [(1280, 8), (2048, 8), (2048, 8)]


def test_a_width_scales_channels_and_leaves_eight():
    model = models.build_model("vgg16", (3, 32, 32), 10, 0, "meta", width=0.0625)
    channels = [block[0].out_channels for block in model[:-1]]
    assert channels == [8] * 4 + [16] * 3 + [32] * 6 and model.fc[2].in_features == 32
    wide = models.build_model("alexnet_cifar", (3, 32, 32), 10, 0, "meta", width=2)
    assert wide.conv1[0].out_channels == 96 and wide.fc7[0].out_features == 2048


# S2VT


def clips(steps: int = 5, count: int = 3, features: int = 4) -> torch.Tensor:
    """Frames of random features; words <bos>, 4, 5, ... and padding."""
    x = torch.randn(count, steps, features + 1, generator=torch.Generator().manual_seed(0))
    x[..., -1] = torch.tensor([BOS, 4, 5, 6, PAD])
    return x


def test_words_are_predicted_from_all_frames_and_the_previous_words():
    model, x = models.build_model("s2vt", (5, 5), 12, 0, **S2VT).eval(), clips()
    logits = model(x).view(3, 5, 12)
    later, frame = x.clone(), x.clone()
    later[:, 3, -1] = 7
    frame[:, 4, 0] += 1
    assert torch.equal(model(later).view(3, 5, 12)[:, :3], logits[:, :3])
    assert not torch.allclose(model(later).view(3, 5, 12)[:, 3], logits[:, 3])
    assert not torch.allclose(model(frame).view(3, 5, 12)[:, 0], logits[:, 0])
    assert model.words.table.weight[PAD].eq(0).all()


def test_greedy_decoding_equals_teacher_forcing_with_its_own_words():
    model, x = models.build_model("s2vt", (5, 5), 12, 1, **S2VT).eval(), clips()
    with torch.no_grad():
        model.vocabulary.linear.bias[:3] = -9.0
        model.vocabulary.linear.bias[EOS] = 0.05
    captions = model.captions(x)
    x[..., -1] = torch.cat([torch.full((3, 1), BOS), captions[:, :-1]], 1)
    likeliest = model(x).view(3, 5, 12).argmax(-1)
    for caption, expected in zip(captions.tolist(), likeliest.tolist()):
        length = caption.index(EOS) + 1 if EOS in caption else 5
        assert caption[:length] == expected[:length] and set(caption[length:]) <= {PAD}


def test_gradients_pass_through_every_cut():
    model, x = models.build_model("s2vt", (5, 5), 12, 0, **S2VT), clips()
    y = torch.tensor([4, 5, 6, EOS, IGNORED] * 3)
    functional.cross_entropy(model(x), y).backward()
    whole = [p.grad.clone() for p in model.parameters()]
    for cut in range(1, 5):
        model.zero_grad()
        first = model[:cut](x)
        received = first.detach().requires_grad_()
        functional.cross_entropy(model[cut:](received), y).backward()
        first.backward(received.grad)
        for ours, theirs in zip(whole, (p.grad for p in model.parameters())):
            torch.testing.assert_close(ours, theirs)


def test_words_computed_at_every_step_are_the_same_and_cost_twice_the_vocabulary():
    plain, every = (models.build_model("s2vt", (5, 5), 12, 0, **S2VT, every_step=each).eval() for each in (False, True))
    torch.testing.assert_close(every(clips()), plain(clips()))
    assert torch.equal(every.captions(clips()), plain.captions(clips()))
    flops = [block_flops(model.to("meta"), (5, 5), 1) for model in (plain, every)]
    assert flops[1][:-1] == flops[0][:-1] and flops[1][-1] == 2 * flops[0][-1]


def test_flops_of_s2vt():
    """Both layers work at all 8 steps, the frames' embedding at 4, the vocabulary at 4."""
    flops = block_flops(models.build_model("s2vt", (4, 4097), 12_594, 0, "meta"), (4, 4097), 1)
    assert flops == [2 * 4 * 4096 * 500, 2 * 8 * 4000 * 1500, 0, 2 * 8 * 4000 * 2500, 2 * 4 * 1000 * 12_594]
