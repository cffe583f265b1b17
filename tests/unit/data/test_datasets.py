"""CIFAR-10 and CIFAR-100 in each layout; options, stand-ins and shapes of all data sets."""

from __future__ import annotations

import shutil
import tarfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from repro import data
from repro.core.errors import InputError, NotHere
from repro.data import files
from repro.data.fetch import fetch_dataset
from repro.data.readers import cifar
from repro.data.sets import cifar10, cifar100
from repro.experiment.schema import RunConfig
from tests.support import probes
from tests.unit.data.conftest import SHARED, needs, table, trained, write_table

PLACES = [*files.search_places(), SHARED]  # before the fixture hides them
COPY = next((place / "cifar10" for place in PLACES if (place / "cifar10" / "cifar10_labels.js").is_file()), None)
needs_cifar10 = needs(COPY, "CIFAR-10")


def record(*labels: int, red: int = 0) -> bytes:
    """A CIFAR record: label bytes, then 1,024 red, green (red + 1) and blue (red + 2) bytes."""
    return bytes(labels) + b"".join(bytes([red + channel]) * 1024 for channel in range(3))


@pytest.fixture
def binary10(tmp_path, monkeypatch) -> Path:
    """A tiny official CIFAR-10: five files of 4 images, and 3 test images; returns the folder above."""
    contents = {
        f"data_batch_{k}.bin": b"".join(record((k + i) % 10, red=10 * k + i) for i in range(4)) for k in range(1, 6)
    }
    contents["test_batch.bin"] = b"".join(record(i, red=100 + i) for i in range(3))
    folder = tmp_path / "place" / "cifar10" / "cifar-10-batches-bin"
    monkeypatch.setattr(cifar10, "FILES", write_table(folder, contents))
    monkeypatch.setattr(cifar10, "TRAIN", 20)
    return tmp_path / "place"


@pytest.fixture
def binary100(tmp_path, monkeypatch) -> Path:
    contents = {
        "train.bin": b"".join(record(i % 20, 99 - i, red=i) for i in range(6)),
        "test.bin": b"".join(record(1, i, red=50) for i in range(2)),
    }
    monkeypatch.setattr(cifar100, "FILES", write_table(tmp_path / "place" / "cifar-100-binary", contents))
    monkeypatch.setattr(cifar100, "TRAIN", 6)
    monkeypatch.setattr(cifar100, "TEST", 2)
    return tmp_path / "place"


# CIFAR in binary


def test_official_cifar10(binary10):
    loaded = data.load_dataset("cifar10", str(binary10), "never")
    assert (loaded.name, loaded.standin, loaded.classes, loaded.input_shape) == ("cifar10", False, 10, (3, 32, 32))
    assert loaded.train.y.tolist() == [(k + i) % 10 for k in range(1, 6) for i in range(4)]
    assert loaded.test.y.tolist() == [0, 1, 2] and loaded.train.x.dtype == torch.uint8
    x, y = loaded.train.select(torch.tensor([5]))
    expected = [((21 + channel) / 255 - cifar10.MEAN[channel]) / cifar10.DEVIATION[channel] for channel in range(3)]
    assert y.item() == 3 and x.shape == (1, 3, 32, 32) and x.dtype == torch.float32
    assert x[0, :, 7, 9].tolist() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(loaded.train.slice(4, 7)[0], loaded.train.select(torch.tensor([4, 5, 6]))[0])


def test_fine_labels_of_cifar100(binary100):
    loaded = data.load_dataset("cifar100", str(binary100), "never")
    assert (loaded.name, loaded.classes) == ("cifar100", 100)
    assert loaded.train.y.tolist() == [99, 98, 97, 96, 95, 94] and loaded.test.y.tolist() == [0, 1]
    assert loaded.train.x[2, :, 0, 0].tolist() == [2, 3, 4]


def test_a_part_is_named_so(binary10, binary100):
    some = data.load_dataset("cifar10", str(binary10), images=7, test_images=None)
    assert (some.name, len(some.train), len(some.test)) == ("cifar10-subset", 7, 3)
    assert data.load_dataset("cifar10", str(binary10), images=50).name == "cifar10"
    assert data.load_dataset("cifar100", str(binary100), test_images=1).name == "cifar100-subset"


@pytest.mark.parametrize(("raw", "labels", "complaint"), [
    (record(3) + b"xx", 1, "3075 bytes are not whole records of 3073"),
    (record(1, 12), 2, "label 12, expected 0 to 9"),
])  # fmt: skip
def test_bad_records(tmp_path, raw, labels, complaint):
    (tmp_path / "f.bin").write_bytes(raw)
    with pytest.raises(InputError, match=complaint) as caught:
        cifar.read_records(tmp_path / "f.bin", labels, 10)
    assert str(tmp_path / "f.bin") in str(caught.value)


def test_fetch_unpacks_the_archive(binary10, tmp_path, server, monkeypatch):
    www, address = server
    with tarfile.open(www / "cifar-10-binary.tar.gz", "w:gz") as tar:
        tar.add(binary10 / "cifar10" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    archive = table(www)["cifar-10-binary.tar.gz"]
    monkeypatch.setattr(cifar10, "ARCHIVE", cifar.Archive("cifar-10-binary.tar.gz", archive))
    folder = fetch_dataset("cifar10", mirrors=[address])
    assert sorted(path.name for path in folder.iterdir()) == sorted(cifar10.FILES)
    assert data.verify_dataset("cifar10") == folder and data.load_dataset("cifar10").name == "cifar10"
    (folder / "data_batch_3.bin").unlink()
    assert data.verify_dataset("cifar10", str(binary10)) and fetch_dataset(
        "cifar10", mirrors=[address]
    ) == data.verify_dataset("cifar10")


# CIFAR-10 as PNGs


@pytest.fixture
def pngs(tmp_path, monkeypatch) -> Path:
    """51 PNGs, all of the same 1,000 images: image r is (r % 200, r % 7, 3) everywhere, its first pixel 255s."""
    folder = tmp_path / "place" / "cifar10"
    folder.mkdir(parents=True)
    pixels = np.zeros((1000, 1024, 3), np.uint8)
    pixels[:] = np.stack([np.arange(1000) % 200, np.arange(1000) % 7, np.full(1000, 3)], 1)[:, None]
    pixels[:, 0] = 255
    Image.fromarray(pixels).save(folder / "cifar10_batch_0.png", compress_level=1)
    for k in range(1, 51):
        shutil.copy(folder / "cifar10_batch_0.png", folder / f"cifar10_batch_{k}.png")
    labels = [*[i % 10 for i in range(50000)], *[9] * 1000]
    (folder / "cifar10_labels.js").write_text(f"var labels={labels};\n")
    expected = table(folder)
    monkeypatch.setattr(cifar10, "png_files", lambda: expected)
    return tmp_path / "place"


def test_png_copy_is_named_after_its_test_images(pngs):
    loaded = data.load_dataset("cifar10", str(pngs), "never", images=2500)
    assert (loaded.name, len(loaded.train), len(loaded.test)) == ("cifar10-subset", 2500, 1000)
    assert loaded.train.y[:12].tolist() == [*range(10), 0, 1] and set(loaded.test.y.tolist()) == {9}
    image = loaded.train.x[1205]
    assert image[:, 0, 0].tolist() == [255] * 3
    assert image[:, 0, 1].tolist() == image[:, 31, 31].tolist() == [205 % 200, 205 % 7, 3]


@pytest.mark.parametrize(("text", "complaint"), [
    ("var labels=[1,2,3];", "3 labels, expected 51000"),
    (f"var labels={[11] * 51000};", "label 11, expected 0 to 9"),
])  # fmt: skip
def test_bad_labels(tmp_path, text, complaint):
    (tmp_path / "cifar10_labels.js").write_text(text)
    with pytest.raises(InputError, match=complaint):
        cifar10.read_labels(tmp_path / "cifar10_labels.js")


@pytest.mark.parametrize(("write", "complaint"), [
    (lambda path: path.write_bytes(b"\x89PNG nonsense"), "not a readable PNG"),
    (lambda path: Image.new("RGB", (32, 32)).save(path), "32x32 pixels, expected 1024x1000"),
])  # fmt: skip
def test_bad_pngs(tmp_path, write, complaint):
    write(tmp_path / "cifar10_batch_0.png")
    with pytest.raises(InputError, match=complaint):
        cifar10.read_sprite(tmp_path / "cifar10_batch_0.png")


@needs_cifar10
def test_real_cifar10():
    loaded = data.load_dataset("cifar10", str(COPY.parent), "never")
    if loaded.name == cifar10.FIRST_1000:
        assert len(loaded.test) == 1000
        assert loaded.test.y.bincount().tolist() == [103, 89, 100, 103, 90, 86, 112, 102, 106, 109]
    assert loaded.test.y[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1] and not loaded.standin
    assert loaded.test.x[0, 0, 0, :4].tolist() == [158, 159, 165, 166]
    assert loaded.train.y.bincount().tolist() == [5000] * 10
    pixels = loaded.train.x.view(50000, 3, -1).double().mean((0, 2)) / 255
    assert pixels.tolist() == pytest.approx(cifar10.MEAN, abs=1e-6)


# Options


@pytest.mark.parametrize(("name", "options", "complaint"), [
    ("cifar10", {"image_size": 5}, "no option 'dataset.image_size'; valid: dataset.images, dataset.test_images"),
    ("imagenet", {"resize": "stretch"}, "dataset.resize=stretch: must be crop or never"),
    ("imagenet", {"images": 5}, "dataset.images=5 is fewer than the 10 classes"),
    ("imagenet", {"images": 1281167, "image_size": 227}, "would take 18. GiB"),
    ("hyperplane", {"dimensions": 0}, "dataset.dimensions=0: must be 1 or more"),
    ("hyperplane", {"noise": -0.1}, "dataset.noise=-0.1: must be 0 or more"),
    ("msvd", {"steps": 1}, "dataset.steps=1: must be 2 or more"),
    ("msvd", {"vocabulary": 4}, "dataset.vocabulary=4: must be 5 or more"),
    ("imagenet", {"image_size": 40_000}, "dataset.image_size=40000: must be 32,768 or less"),
    ("multi30k", {"vocabulary": 4}, "dataset.vocabulary=4: must be 5 or more"),
    ("multi30k", {"batching": "sorted"}, "dataset.batching=sorted: must be bucketed or random"),
    ("ptb", {"bptt": 0}, "dataset.bptt=0: must be 1 or more"),
    ("ptb", {"test_words": 1}, "dataset.test_words=1: must be 2 or more"),
    ("ptb", {"test_text": "train"}, "dataset.test_text=train: must be valid or test"),
    ("ucf101", {"split": 4}, "dataset.split=4: must be 1, 2 or 3"),
    ("ucf101", {"videos": 100}, "dataset.videos=100 is fewer than the 101 classes"),
    ("ucf101", {"bucketing": "widths"}, "dataset.bucketing=widths: must be count or width"),
    ("ucf101", {"features": 4096}, "dataset.features=4096: a frame has 2048"),
])  # fmt: skip
def test_bad_options(name, options, complaint):
    with pytest.raises(InputError, match=complaint):
        data.load_dataset(name, standin="always", **options)


# Held-out training samples


def test_validation_takes_the_last_training_samples_in_the_place_of_the_test_set():
    whole, held = (data.load_dataset("cifar10", standin="always", images=300, validation=n) for n in (None, 100))
    assert torch.equal(held.train.x, whole.train.x[:200]) and torch.equal(held.train.y, whole.train.y[:200])
    assert torch.equal(held.test.x, whole.train.x[200:]) and torch.equal(held.test.y, whole.train.y[200:])
    assert torch.equal(held.test.slice(0, 5)[0], whole.train.slice(200, 205)[0])  # normalised alike
    assert held.name != whole.name and held.standin and held.classes == whole.classes
    shapes = data.load_shapes("mnist", validation=10000)
    assert (len(shapes.train), len(shapes.test)) == (50000, 10000)


@pytest.mark.parametrize("validation", [0, -1, 300, 1.5, True, "all"])
def test_validation_must_leave_samples_to_train_on(validation):
    with pytest.raises(InputError, match=r"dataset.validation=.*: must be a whole number from 1 to 299, or null"):
        data.load_dataset("cifar10", standin="always", images=300, validation=validation)


def test_a_standin_too_small_for_the_validation_counts_as_missing_data(monkeypatch, tmp_path):
    monkeypatch.setenv("REPRO_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NotHere, match=r"'cifar10' not found.*dataset.validation=400"):
        data.load_dataset("cifar10", images=300, validation=400)


# Stand-ins


@pytest.mark.parametrize(("name", "options", "shape", "classes", "counts", "checksum"), [
    ("cifar10", {"images": 500}, (3, 32, 32), 10, (500, 2000), "b096f0cf"),
    ("cifar100", {"images": 300, "test_images": 100}, (3, 32, 32), 100, (300, 100), "bc305750"),
    ("imagenet", {}, (3, 64, 64), 10, (1024, 256), "c2cf4c3d"),
    ("imagenet", {"image_size": 33, "classes": 4, "images": 10}, (3, 33, 33), 4, (10, 256), "e6cf2f19"),
])  # fmt: skip
def test_standins_are_the_same_everywhere(name, options, shape, classes, counts, checksum):
    one = data.load_dataset(name, **options)
    assert (one.name, one.standin, one.input_shape, one.classes) == (f"{name}-standin-seeded", True, shape, classes)
    assert (len(one.train), len(one.test)) == counts and one.train.x.dtype == torch.uint8
    assert one.checksum.startswith(checksum)
    each = one.train.y.bincount(minlength=classes)
    assert each.max() - each.min() <= 1 and not torch.equal(one.train.y, one.train.y.sort().values)
    x = one.train.slice(0, 500)[0]
    assert abs(x.mean()) < 0.2 and 0.5 < x.std() < 1.2


@pytest.mark.parametrize(("name", "options", "chance"), [
    ("cifar10", {"images": 3000, "test_images": 500}, 0.1),
    ("cifar100", {"images": 5000, "test_images": 300}, 0.01),
    ("imagenet", {"image_size": 32}, 0.1),
])  # fmt: skip
def test_standins_can_be_learned_but_not_in_one_step(name, options, chance):
    scores = trained(data.load_dataset(name, **options), partial(torch.optim.SGD, lr=0.01), 100, 50, "softmax")
    first, last = (each["top1"] for each in scores)
    assert first < 0.7 and last > max(5 * chance, first + 0.15)


# Shapes only


@pytest.mark.parametrize(("name", "options", "counts", "classes", "shape"), [
    ("imagenet", {}, (1281167, 50000), 1000, (3, 227, 227)),
    ("imagenet", {"classes": 10, "images": 5000}, (5000, 50000), 10, (3, 227, 227)),
    ("cifar10", {}, (50000, 10000), 10, (3, 32, 32)),
    ("mnist", {}, (60000, 10000), 10, (1, 28, 28)),
])  # fmt: skip
def test_shapes_only(name, options, counts, classes, shape):
    found = data.load_shapes(name, **options)
    assert (found.name, found.standin) == (f"{name} (shapes only)", False)
    assert (len(found.train), len(found.test), found.classes, found.input_shape) == (*counts, classes, shape)
    assert found.train.x.is_meta and found.train.to("cpu") is found.train and found.train.x.shape[1:] == shape
    assert found.checksum == data.load_shapes(name, **options).checksum


MEASURED = {"name": "made up", "kind": "measured", "launcher": "mpirun", "network": "made up"}


def configuration(testbed: dict, **options) -> RunConfig:
    parts = {"dataset": {"name": "cifar10", "standin": "auto", **options}, "data": {"root": None}, "testbed": testbed}
    return probes.check(probes.composed("fig4-mnist") | parts)


def test_a_runs_data_set_follows_its_testbed():
    data.forget_dataset()
    none, real_arithmetic = (probes.TESTBED | {"arithmetic": which} for which in ("none", "real"))
    timing = data.dataset_for(configuration(none))
    assert timing.name == "cifar10 (shapes only)"
    real = data.dataset_for(configuration(real_arithmetic, images=50, test_images=20))
    assert real.name == "cifar10-standin-seeded" and len(real.train) == 50
    assert data.dataset_for(configuration(real_arithmetic, images=50, test_images=20)) is real, "virtual ranks share it"
    assert data.dataset_for(configuration(MEASURED, images=50, test_images=20)).standin
    with pytest.raises(InputError, match=r"unknown option 'testbed.arithmetic'"):
        configuration(MEASURED | {"arithmetic": "none"})
    with pytest.raises(InputError, match=r"data set cifar10 has no option 'imges'; valid: flip, images"):
        data.dataset_for(configuration(none, imges=3))
    with pytest.raises(InputError, match=r"dataset.images=\[3\]"):
        data.dataset_for(configuration(real_arithmetic, images=[3]))
    data.forget_dataset()
