"""ImageNet's layout: folders of images, read at once or when drawn, cut, limited, damaged."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from pathlib import Path

import pytest
import torch
from PIL import EpsImagePlugin, Image

from repro import data, models
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.data.fetch import fetch
from repro.data.minibatches import Batches
from repro.data.readers import lazy, prefetch
from repro.data.sets import imagenet
from repro.training.evaluation.evaluate import evaluate
from tests.unit.data.conftest import draw


@pytest.mark.parametrize("decode", ["memory", "lazy"])
def test_folders_of_images(folders, decode):
    loaded = data.load("imagenet", str(folders), "never", image_size=16, decode=decode)
    assert (loaded.name, loaded.standin, loaded.classes) == ("imagenet-subset", False, 3)
    assert loaded.input_shape == (3, 16, 16)
    assert loaded.train.y.tolist() == [0, 1, 2, 0, 1, 2, 0], "class after class the first image, then the second"
    x, y = loaded.train.select(torch.tensor([5, 0]))
    assert x.shape == (2, 3, 16, 16) and x.dtype == torch.float32 and y.tolist() == [2, 0]
    levels = x[0, :, 8, 8] * torch.tensor(imagenet.DEVIATION) * 255 + torch.tensor(imagenet.MEAN) * 255
    assert (levels - torch.tensor([120.0, 9.0, 20.0])).abs().max() < 5  # JPEG
    assert isinstance(loaded.train, lazy.LazySplit) == (decode == "lazy")


def test_decoding_when_drawn_changes_nothing(folders):
    early, late = (data.load("imagenet", str(folders), image_size=16, decode=decode) for decode in ("memory", "lazy"))
    assert early.checksum == late.checksum
    for split in ("train", "test"):
        one, two = getattr(early, split), getattr(late, split)
        assert len(one) == len(two) and torch.equal(one.slice(1, 99)[0], two.slice(1, 99)[0])
    for minibatch in (0, 3, 5):
        a, b = (Batches(dataset.train, 2, seed=1, device="cpu")[minibatch] for dataset in (early, late))
        assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
    model = models.build("softmax", (3, 16, 16), 3, 0)
    scores = [evaluate(model, model.state_dict(), dataset.test, torch.device("cpu")) for dataset in (early, late)]
    assert scores[0] == scores[1]


def drawn(folders: Path, ahead: int | None, ids: list[int]) -> tuple[list[torch.Tensor], lazy.LazySplit]:
    options = {"image_size": 16, "held": 20, "crop": "random", "flip": True, "decode": "lazy", "ahead": ahead}
    batches = data.load("imagenet", str(folders), **options).train.minibatches(2, 1, 7, "cpu")
    return [batches[minibatch][0] for minibatch in ids], batches.split.whole


def test_what_is_decoded_ahead_is_what_would_be_drawn(folders, monkeypatch):
    """In any order, from wherever a resume begins, across epochs, by however many threads."""
    ids = [0, 1, 2, 3, 4, 5, 6, 9, 12, 15, 2, 1, 30, 32, 34]
    plain, split = drawn(folders, None, ids)
    assert split.lookahead == 0 and not split.prefetch, "a CPU's cores compute"
    for ahead, threads in ((1, 1), (2, 1), (3, 5)):
        monkeypatch.setattr(prefetch, "_pools", {})
        monkeypatch.setattr(prefetch.os, "sched_getaffinity", lambda _, threads=threads: range(threads))
        found, split = drawn(folders, ahead, ids)
        assert all(torch.equal(one, other) for one, other in zip(plain, found, strict=True))
        assert len(split.prefetch) <= ahead + 1
        resumed, _ = drawn(folders, ahead, ids[4:])
        assert all(torch.equal(one, other) for one, other in zip(plain[4:], resumed, strict=True))


def test_minibatches_in_equal_steps_are_there_before_they_are_drawn(folders, monkeypatch):
    made = []
    monkeypatch.setattr(
        lazy.LazySplit, "_start", lambda self, rows, begun=lazy.LazySplit._start: made.append(rows) or begun(self, rows)
    )
    batches = data.load("imagenet", str(folders), image_size=16, decode="lazy", ahead=2).train.minibatches(
        1, 1, 0, "cpu"
    )
    made.clear()
    for minibatch in (1, 3, 5):
        batches[minibatch]
    assert made == [tuple(batches.indices(one).tolist()) for one in (1, 3, 5, 7, 9)]
    made.clear()
    batches[7]
    assert made == [tuple(batches.indices(11).tolist())], "7 was begun, and so was 9"


def test_an_image_that_is_spoilt_meanwhile_ends_the_run_when_it_is_drawn(folders):
    batches = data.load("imagenet", str(folders), image_size=16, decode="lazy", ahead=1).train.minibatches(
        7, 1, 0, "cpu"
    )
    for minibatch in range(3):
        batches[minibatch]
    (begun,) = batches.split.prefetch
    begun.images()  # of 3, whole
    (path,) = (folders / "imagenet" / "train" / "n01").glob("*_1.JPEG")
    path.write_bytes(path.read_bytes()[:200])
    batches[3]  # begins 4
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


def test_first_classes_and_images(folders):
    loaded = data.load("imagenet", str(folders), image_size=8, classes=2, images=3, test_images=1)
    assert loaded.classes == 2 and loaded.train.y.tolist() == [0, 1, 0] and loaded.test.y.tolist() == [0]
    assert loaded.checksum != data.load("imagenet", str(folders), image_size=8, classes=2).checksum


def test_too_few_classes(folders):
    with pytest.raises(InputError, match=r"train: 3 class folders \(n01, n02, n03\), but dataset.classes=5 asks for 5"):
        data.load("imagenet", str(folders), classes=5)
    with pytest.raises(InputError, match=r"dataset.classes=1 asks for 1"):
        data.load("imagenet", str(folders), classes=1)
    shutil.rmtree(folders / "imagenet" / "train" / "n02")
    shutil.rmtree(folders / "imagenet" / "train" / "n03")
    with pytest.raises(InputError, match=r"1 class folders \(n01\), but at least 2 are needed"):
        data.load("imagenet", str(folders))


@pytest.mark.parametrize(
    "remove, complaint",
    [
        ("val", "incomplete: .*imagenet lacks val/"),
        ("val/n02", "n02: cannot be read .*every class of train/"),
        ("train/n03/n03_0.JPEG train/n03/n03_1.JPEG", "n03: no image .*jpeg"),
    ],
)
def test_missing_folders_and_images(folders, remove, complaint):
    for name in remove.split():
        path = folders / "imagenet" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match=complaint):
        data.load("imagenet", str(folders), "auto")


def test_mixed_sizes(folders):
    draw(folders / "imagenet" / "train" / "n02" / "n02_1.JPEG", size=(50, 40))
    draw(folders / "imagenet" / "val" / "n03" / "v.JPEG", size=(48, 41))
    assert data.load("imagenet", str(folders), image_size=16).input_shape == (3, 16, 16)
    with pytest.raises(InputError) as caught:
        data.load("imagenet", str(folders), resize="never")
    message = str(caught.value)
    for part in ("2 of 10 images are not 48x40 pixels", "n02_1.JPEG is 50x40", "n01_0.JPEG is 48x40", "resize=crop"):
        assert part in message
    assert "\n" not in message
    with pytest.raises(InputError, match=r"10 of 10 images are not 16x16 pixels.*is 48x40.*is 48x41"):
        data.load("imagenet", str(folders), resize="never", image_size=16)


@pytest.mark.parametrize("decode", ["memory", "lazy"])
def test_unreadable_images_are_named_and_counted_before_training(folders, decode):
    train = folders / "imagenet" / "train"
    for name in ("n01/n01_0", "n01/n01_2", "n02/n02_0", "n03/n03_1"):
        (train / f"{name}.JPEG").write_bytes(b"no image")
    with pytest.raises(InputError) as caught:
        data.load("imagenet", str(folders), "auto", image_size=8, decode=decode)
    message = str(caught.value)
    assert "of 7 images" in message or "of 10 images" in message
    assert message.startswith("4 of") and message.count(".JPEG (") == 3 and "and 1 more" in message
    assert "\n" not in message


def test_a_truncated_image(folders):
    path = folders / "imagenet" / "train" / "n02" / "n02_0.JPEG"
    draw(path, size=(400, 300))
    path.write_bytes(path.read_bytes()[:-900])
    with pytest.raises(InputError, match=r"1 of 7 images cannot be read: .*n02_0.JPEG \(.*truncated"):
        data.load("imagenet", str(folders), image_size=8, decode="memory")
    late = data.load("imagenet", str(folders), image_size=8, decode="lazy")  # its header is fine
    with pytest.raises(InputError, match=r"n02_0.JPEG \(.*truncated"):
        late.train.slice(0, 7)


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 48 40\n%%EndComments\n%%EOF\n"


def bomb(width: int, height: int) -> bytes:
    """A PNG of so many pixels in some hundred bytes: its header, and data that ends early."""
    chunks = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(9)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


@pytest.mark.parametrize("decode", ["memory", "lazy"])
@pytest.mark.parametrize(
    "content, complaint",
    [
        pytest.param(EPS, "no image", id="a program for Ghostscript"),
        pytest.param(bomb(13_000, 13_000), "pixels", id="more pixels than an image may have, below Pillow's own limit"),
        pytest.param(bomb(40_000, 40_000), "pixels", id="and above it"),
    ],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_files_that_would_take_the_machine(folders, monkeypatch, content, complaint, decode):
    """They are refused by their first bytes, whatever their name."""
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("interpreted"))
    (folders / "imagenet" / "train" / "n02" / "n02_0.JPEG").write_bytes(content)
    for resize in ("crop", "never"):
        with pytest.raises(
            InputError, match=rf"1 of \d+ images cannot be read: .*n02_0\.JPEG \(.*{complaint}"
        ) as caught:
            data.load("imagenet", str(folders), image_size=40, resize=resize, decode=decode)
        assert "\n" not in str(caught.value)


def test_images_are_opened_through_one_door():
    opening = {path.name for path in (PROJECT / "repro").rglob("*.py") if "Image.open(" in path.read_text()}
    assert opening == {"images.py"}


def test_a_pipe_among_the_images(folders):
    path = folders / "imagenet" / "train" / "n02" / "n02_0.JPEG"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"n02_0\.JPEG \(no regular file\)"):
        data.load("imagenet", str(folders), image_size=8)


def test_imagenet_is_never_downloaded(tmp_path):
    for attempt in (
        lambda: fetch("imagenet"),
        lambda: data.load("imagenet", None, "never"),
        lambda: data.verify("imagenet"),
    ):
        with pytest.raises(InputError) as caught:
            attempt()
        message = str(caught.value)
        assert "train/<class>/*.JPEG" in message and str(tmp_path / "cache" / "repro" / "imagenet") in message
        assert "REPRO_DATA" in message and "\n" not in message
    said = []
    assert data.ensure("imagenet", say=said.append) is None
    assert len(said) == 1 and "imagenet-standin-seeded" in said[0] and "what to put where" in said[0]
