"""ImageNet's folders of images: decoded in advance or when drawn, cropped, limited, damaged."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from functools import partial
from pathlib import Path

import pytest
import torch
from PIL import EpsImagePlugin, Image

from repro import data, models
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.data import minibatches
from repro.data.fetch import fetch_dataset
from repro.data.minibatches import Batches
from repro.data.readers import lazy
from repro.data.sets import imagenet
from repro.training.evaluation.evaluate import evaluate_weights
from tests.unit.data.conftest import draw


def load(place: Path, standin: str = "auto", **options) -> data.Dataset:
    return data.load_dataset("imagenet", str(place), standin, **{"image_size": 16, **options})


def test_folders_of_images(folders):
    loaded = load(folders, "never")
    assert (loaded.name, loaded.standin, loaded.classes) == ("imagenet-subset", False, 3)
    assert loaded.input_shape == (3, 16, 16)
    assert loaded.train.y.tolist() == [0, 1, 2, 0, 1, 2, 0], "the first image of each class, then the second"
    x, y = loaded.train.select(torch.tensor([5, 0]))
    assert x.shape == (2, 3, 16, 16) and x.dtype == torch.float32 and y.tolist() == [2, 0]
    levels = x[0, :, 8, 8] * torch.tensor(imagenet.DEVIATION) * 255 + torch.tensor(imagenet.MEAN) * 255
    assert (levels - torch.tensor([120.0, 9.0, 20.0])).abs().max() < 5  # JPEG
    some = load(folders, classes=2, images=3, test_images=1)
    assert some.classes == 2 and some.train.y.tolist() == [0, 1, 0] and some.test.y.tolist() == [0]
    assert some.checksum != loaded.checksum


def test_a_strip_that_resizing_would_blow_up_is_refused(tmp_path):
    """A row of 65,500 pixels has 67 million once its shorter side has 32, in each of the threads."""
    draw(tmp_path / "strip.png", (1, 65_500))
    with pytest.raises(InputError, match=r"strip\.png \(1x65500, resized to 32x2096000: more than"):
        lazy.Decoder((28, 28), exact=False)(tmp_path / "strip.png")
    draw(tmp_path / "narrow.png", (10, 2_000))
    assert lazy.Decoder((28, 28), exact=False)(tmp_path / "narrow.png").shape == (3, 28, 28)


def test_lazy_decoding_gives_the_same_samples(folders):
    early, late = (load(folders, decode=decode) for decode in ("memory", "lazy"))
    assert early.checksum == late.checksum and isinstance(late.train, lazy.LazySplit)
    for split in ("train", "test"):
        one, two = getattr(early, split), getattr(late, split)
        assert len(one) == len(two) and torch.equal(one.slice(1, 99)[0], two.slice(1, 99)[0])
    for minibatch in (0, 3, 5):
        a, b = (Batches(dataset.train, 2, seed=1, device="cpu")[minibatch] for dataset in (early, late))
        assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
    model = models.build_model("softmax", (3, 16, 16), 3, 0)
    scores = [
        evaluate_weights(model, model.state_dict(), dataset.test, torch.device("cpu")) for dataset in (early, late)
    ]
    assert scores[0] == scores[1]


def drawn(folders: Path, ahead: int | None, ids: list[int]) -> tuple[list[torch.Tensor], lazy.LazySplit]:
    dataset = load(folders, held=20, crop="random", flip=True, decode="lazy", ahead=ahead)
    batches = dataset.train.minibatches(2, 1, 7, "cpu")
    return [batches[minibatch][0] for minibatch in ids], batches.split.whole


def test_prefetched_minibatches_are_the_same(folders, monkeypatch):
    """In any order, after a resume, across epochs, with any number of threads."""
    ids = [0, 1, 2, 3, 4, 5, 6, 9, 12, 15, 2, 1, 30, 32, 34]
    plain, split = drawn(folders, None, ids)
    assert split.lookahead == 0 and not split.prefetch, "not on a CPU"
    for ahead, threads, first in ((1, 1, 0), (3, 5, 0), (2, 1, 4)):
        monkeypatch.setattr(minibatches, "_pools", {})
        monkeypatch.setattr(minibatches.os, "sched_getaffinity", lambda _, threads=threads: range(threads))
        prefetched, split = drawn(folders, ahead, ids[first:])
        assert all(torch.equal(one, other) for one, other in zip(plain[first:], prefetched, strict=True))
        assert len(split.prefetch) <= ahead + 1


def test_minibatches_in_equal_steps_are_prefetched(folders, monkeypatch):
    rows, start = [], lazy.LazySplit._start
    monkeypatch.setattr(lazy.LazySplit, "_start", lambda self, one: rows.append(one) or start(self, one))
    batches = load(folders, decode="lazy", ahead=2).train.minibatches(1, 1, 0, "cpu")
    rows.clear()
    for minibatch in (1, 3, 5):
        batches[minibatch]
    assert rows == [tuple(batches.indices(one).tolist()) for one in (1, 3, 5, 7, 9)]
    rows.clear()
    batches[7]
    assert rows == [tuple(batches.indices(11).tolist())], "7 and 9 are in progress"


def test_an_image_that_is_damaged_later_ends_the_run_when_it_is_drawn(folders):
    batches = load(folders, decode="lazy", ahead=1).train.minibatches(7, 1, 0, "cpu")
    for minibatch in range(3):
        batches[minibatch]
    (decoding,) = batches.split.prefetch
    decoding.images()  # of minibatch 3
    (path,) = (folders / "imagenet" / "train" / "n01").glob("*_1.JPEG")
    path.write_bytes(path.read_bytes()[:200])
    batches[3]  # starts 4
    with pytest.raises(InputError, match=r"1 of 7 images cannot be read: .*n01_1\.JPEG"):
        batches[4]


def test_the_middle_is_cut_out(folders):
    """A 64x32 image whose left and right quarters are black comes out without them."""
    image = Image.new("RGB", (64, 32))
    image.paste((250, 250, 250), (16, 0, 48, 32))
    path = folders / "wide.png"
    image.save(path)
    pixels = lazy.Decoder((28, 28), exact=False)(path)
    assert pixels.shape == (3, 28, 28) and pixels.min() == 250
    exact = lazy.Decoder((32, 64), exact=True)(path)
    assert exact[0, 0].tolist() == [0] * 16 + [250] * 32 + [0] * 16


@pytest.mark.parametrize(("remove", "options", "complaint"), [
    ("", {"classes": 5}, r"train: 3 class folders \(n01, n02, n03\), but dataset.classes=5 must be 2 to 3"),
    ("", {"classes": 1}, r"dataset.classes=1 must be 2 to 3"),
    ("train/n02 train/n03", {}, r"1 class folders \(n01\), but at least 2 are needed"),
    ("val", {}, "incomplete: .*imagenet lacks val/"),
    ("val/n02", {}, "n02: cannot be read .*every class of train/"),
    ("train/n03/n03_0.JPEG train/n03/n03_1.JPEG", {}, "n03: no image .*jpeg"),
])  # fmt: skip
def test_missing_classes_and_images(folders, remove, options, complaint):
    for name in remove.split():
        path = folders / "imagenet" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match=complaint):
        load(folders, **options)


def test_mixed_sizes(folders):
    draw(folders / "imagenet" / "train" / "n02" / "n02_1.JPEG", size=(50, 40))
    draw(folders / "imagenet" / "val" / "n03" / "v.JPEG", size=(48, 41))
    assert load(folders).input_shape == (3, 16, 16)
    with pytest.raises(InputError) as caught:
        load(folders, resize="never", image_size=None)
    message = str(caught.value)
    for part in ("2 of 10 images are not 48x40 pixels", "n02_1.JPEG is 50x40", "n01_0.JPEG is 48x40", "resize=crop"):
        assert part in message
    with pytest.raises(InputError, match=r"10 of 10 images are not 16x16 pixels.*is 48x40.*is 48x41"):
        load(folders, resize="never")


@pytest.mark.parametrize("decode", ["memory", "lazy"])
def test_unreadable_images_are_named_and_counted_before_training(folders, decode):
    train = folders / "imagenet" / "train"
    for name in ("n01/n01_0", "n01/n01_2", "n02/n02_0", "n03/n03_1"):
        (train / f"{name}.JPEG").write_bytes(b"no image")
    with pytest.raises(InputError) as caught:
        load(folders, decode=decode)
    message = str(caught.value)
    assert "of 7 images" in message or "of 10 images" in message
    assert message.startswith("4 of") and message.count(".JPEG (") == 3 and "and 1 more" in message
    assert "\n" not in message


def test_a_truncated_image(folders):
    path = folders / "imagenet" / "train" / "n02" / "n02_0.JPEG"
    draw(path, size=(400, 300))
    path.write_bytes(path.read_bytes()[:-900])
    with pytest.raises(InputError, match=r"1 of 7 images cannot be read: .*n02_0.JPEG \(.*truncated"):
        load(folders, decode="memory")
    late = load(folders, decode="lazy")  # its header is fine
    with pytest.raises(InputError, match=r"n02_0.JPEG \(.*truncated"):
        late.train.slice(0, 7)


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 48 40\n%%EndComments\n%%EOF\n"


def bomb(width: int, height: int) -> bytes:
    """A PNG of so many pixels in some hundred bytes: its header, and data that ends early."""
    chunks = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(9)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


@pytest.mark.parametrize(("content", "complaint"), [
    pytest.param(EPS, "no image", id="a program for Ghostscript"),
    pytest.param(bomb(13_000, 13_000), "pixels", id="more pixels than our limit, fewer than Pillow's"),
    pytest.param(bomb(40_000, 40_000), "pixels", id="more pixels than Pillow's limit"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_hostile_files_are_refused_by_their_first_bytes(folders, monkeypatch, content, complaint):
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("interpreted"))
    (folders / "imagenet" / "train" / "n02" / "n02_0.JPEG").write_bytes(content)
    for resize, decode in (("crop", "memory"), ("crop", "lazy"), ("never", "lazy")):
        with pytest.raises(InputError, match=rf"1 of \d+ images cannot be read: .*n02_0\.JPEG \(.*{complaint}"):
            load(folders, resize=resize, decode=decode)


def test_only_one_module_opens_images():
    opening = {path.name for path in (PROJECT / "repro").rglob("*.py") if "Image.open(" in path.read_text()}
    assert opening == {"images.py"}


def test_a_pipe_among_the_images(folders):
    path = folders / "imagenet" / "train" / "n02" / "n02_0.JPEG"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"n02_0\.JPEG \(no regular file\)"):
        load(folders)


def test_imagenet_is_never_downloaded(tmp_path):
    for attempt in (fetch_dataset, data.verify_dataset, partial(data.load_dataset, standin="never")):
        with pytest.raises(InputError) as caught:
            attempt("imagenet")
        message = str(caught.value)
        assert "train/<class>/*.JPEG" in message and str(tmp_path / "cache" / "repro" / "imagenet") in message
        assert "REPRO_DATA" in message and "\n" not in message
    lines = []
    assert data.ensure_dataset("imagenet", say=lines.append) is None
    assert len(lines) == 1 and "imagenet-standin-seeded" in lines[0] and "what to put where" in lines[0]
