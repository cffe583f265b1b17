"""Random augmentation of training minibatches: its random numbers, and each kind of change."""

from __future__ import annotations

import hashlib
import math

import pytest
import torch
from PIL import Image

from repro import data
from repro.core.errors import InputError
from repro.data.augmentation import Augmentation
from repro.data.base import Split
from repro.data.minibatches import Batches
from repro.data.readers.augment import NUMBERS, Augmented, augment_images, uniform_numbers
from repro.data.sets import imagenet

ALL = {"flip": True, "pad": 4, "colour": 0.1}
IMAGES = torch.arange(6 * 3 * 8 * 8, dtype=torch.float32).view(6, 3, 8, 8)


def split(**options):
    whole = Split(IMAGES, torch.arange(6))
    return Augmented(whole, Augmentation(**options), (8, 8))


def numbers(**values):
    """The random numbers of one image, by default 0.75."""
    names = ("flip", "down", "right", "area", "aspect")
    return torch.tensor([[values.get(name, 0.75) for name in names] + [0.5] * 3])


def test_numbers_are_the_places_of_a_splitmix64_stream():
    state = int.from_bytes(hashlib.sha256(b"1/0").digest()[:8], "big")
    found = []
    for _ in range(3 * NUMBERS):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
        found.append((((mixed ^ (mixed >> 31)) >> 41) + 0.5) / 2**23)
    assert uniform_numbers("1/0", torch.tensor([2, 0])).tolist() == [found[2 * NUMBERS :], found[:NUMBERS]]
    many = uniform_numbers("0/0", torch.arange(20_000))
    assert many.min() > 0 and many.max() < 1
    assert (many.mean(0) - 0.5).abs().max() < 0.01 and (many.var(0) - 1 / 12).abs().max() < 0.01


def test_a_draw_depends_on_seed_epoch_and_sample_alone():
    held = split(**ALL)
    one, two = Batches(held, 2, seed=3), Batches(held, 3, seed=3)  # of two ranks and of one, say
    for epoch in (0, 1):
        rows = torch.cat([one.indices(3 * epoch + i) for i in range(3)])
        seen = torch.cat([one[3 * epoch + i][0] for i in range(3)])
        again = torch.cat([two[2 * epoch + i][0] for i in (0, 1)])
        assert torch.equal(seen, again)
        assert torch.equal(seen[rows.argsort()], held.draw(torch.arange(6), f"3/{epoch}")[0])
    rows = torch.arange(6)
    drawn = [held.draw(rows, epoch)[0] for epoch in ("3/0", "3/1", "4/0")]
    assert not any(torch.equal(a, b) for a, b in zip(drawn, drawn[1:] + drawn[:1]))
    part = held.subset(3)
    assert torch.equal(part.draw(torch.tensor([1]), "3/0")[0][0], drawn[0][part.rows[1]])


def test_an_evaluation_uses_unchanged_images():
    held = split(**ALL)
    assert torch.equal(held.select(torch.arange(6))[0], IMAGES)
    assert torch.equal(torch.cat([x for x, _ in held.in_order()]), IMAGES)


ONE, HALF = IMAGES[:1], (0.5**2 - 0.08) / 0.92  # the area number for half of each side
PADDED = torch.nn.functional.pad(ONE, (4, 4, 4, 4))
CORNER = {"area": HALF, "aspect": 0.5, "down": 0, "right": 1}


@pytest.mark.parametrize(("values", "options", "size", "expected"), [
    ({"flip": 0.49}, {"flip": True}, (8, 8), ONE.flip(3)),
    ({"flip": 0.51}, {"flip": True}, (8, 8), ONE),
    ({"flip": 0.49}, {}, (8, 8), ONE),
    ({"down": 0.001}, {"pad": 4}, (8, 8), PADDED[..., 0:8, 6:14]),
    ({"down": 0.5}, {"pad": 4}, (8, 8), PADDED[..., 4:12, 6:14]),
    ({"down": 0.999}, {"pad": 4}, (8, 8), PADDED[..., 8:16, 6:14]),
    ({"down": 0.99, "right": 0.01}, {"crop": "random"}, (5, 6), ONE[..., 3:8, 0:6]),
    (CORNER, {"crop": "area"}, (4, 4), ONE[..., :4, 4:]),
    (CORNER | {"flip": 0.1}, {"crop": "area", "flip": True}, (4, 4), ONE[..., :4, 4:].flip(3)),
])  # fmt: skip
def test_each_change_of_an_image(values, options, size, expected):
    changed = augment_images(ONE, numbers(**values), Augmentation(**options), size)
    assert torch.allclose(changed, expected, atol=1e-3 if options.get("crop") == "area" else 0)


def test_colours_move_along_imagenets_components():
    drawn = uniform_numbers("c", torch.arange(50_000))
    black = torch.zeros(1, 3, 1, 1).expand(50_000, -1, -1, -1)
    moved = augment_images(black, drawn, Augmentation(colour=0.1), (1, 1))[..., 0, 0] * torch.tensor(imagenet.DEVIATION)
    found = torch.linalg.eigvalsh(moved.T.cov().double()).sqrt().flip(0)
    assert found.tolist() == pytest.approx([0.02175, 0.00188, 0.00045], rel=0.02)
    assert math.isfinite(moved.abs().max())


@pytest.mark.parametrize("decode", ["memory", "lazy"])
def test_imagenet_is_cut_out_of_what_is_held(folders, decode):
    for i, path in enumerate(sorted(folders.rglob("train/*/*.JPEG"))):  # something to see where a window lies
        noise = torch.randint(0, 256, (40, 48, 3), generator=torch.Generator().manual_seed(i), dtype=torch.uint8)
        Image.fromarray(noise.numpy()).save(path, quality=95)
    options = {"image_size": 16, "decode": decode, "held": 24}
    plain = data.load_dataset("imagenet", str(folders), "never", **options)
    cut = data.load_dataset("imagenet", str(folders), "never", crop="random", flip=True, **options)
    rows = torch.arange(7)
    assert torch.equal(plain.train.select(rows)[0], cut.train.select(rows)[0])
    assert torch.equal(plain.train.draw(rows, "0/0")[0], plain.train.select(rows)[0])
    assert torch.equal(plain.test.slice(0, 3)[0], cut.test.slice(0, 3)[0])
    x, y = cut.train.draw(rows, "0/0")
    assert x.shape == (7, 3, 16, 16) and y.tolist() == cut.train.y.tolist()
    held = cut.train.whole.select(rows)[0]
    assert held.shape == (7, 3, 24, 24)
    for image, one in zip(held, x):  # each is a window of its image, as it is or mirrored
        windows = image.unfold(1, 16, 1).unfold(2, 16, 1)
        assert any((windows == seen[:, None, None]).all((0, 3, 4)).any() for seen in (one, one.flip(2)))


def test_bytes_stay_bytes_and_the_test_set_stays():
    plain = data.load_dataset("cifar10", None, "always", images=20, test_images=10)
    changed = data.load_dataset("cifar10", None, "always", images=20, test_images=10, flip=True, pad=4)
    assert changed.checksum == plain.checksum and changed.train.whole.x.dtype == torch.uint8
    assert torch.equal(changed.test.slice(0, 10)[0], plain.test.slice(0, 10)[0])
    assert not torch.equal(changed.train.draw(torch.arange(20), "0/0")[0], plain.train.slice(0, 20)[0])
    assert data.load_shapes("cifar10", flip=True, pad=4).train.x.is_meta


@pytest.mark.parametrize(("options", "words"), [
    ({"pad": -1}, "dataset.pad=-1: must be 0 or more"),
    ({"crop": "random"}, "dataset.crop=random: images are stored in 16x16 pixels"),
    ({"held": 8}, "dataset.held=8: requires dataset.resize=crop, and must be 16 or more"),
])  # fmt: skip
def test_bad_options(folders, options, words):
    with pytest.raises(InputError, match=words):
        data.load_dataset("imagenet", str(folders), "never", image_size=16, **options)


@pytest.mark.parametrize("options", [{"flip": True, "pad": 2, "colour": 0.1}, {"crop": "area"}, {"crop": "random"}])
def test_images_on_a_gpu_are_cut_there_though_their_rows_are_on_the_host(options):
    whole = Split(IMAGES.to("meta"), torch.arange(6, device="meta"))  # refuses tensors of the host as a GPU does
    x, _ = Augmented(whole, Augmentation(**options), (8, 8)).draw(torch.arange(6), "3/0")
    assert x.device.type == "meta" and x.shape == (6, 3, 8, 8)
