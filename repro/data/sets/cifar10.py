"""CIFAR-10 (Krizhevsky 2009): 50,000 + 10,000 colour images of 32x32 in 10 classes.

Two layouts are supported. One is the official binary version: data_batch_1.bin .. data_batch_5.bin and test_batch.bin,
with records of a label byte and 1,024 red, green and blue bytes. The other is the lossless copy of convnetjs: 51 PNGs
of 1,000 images each, one in each row, and cifar10_labels.js. It has all training images but only the first 1,000 test
images, as the data set's name shows.

Options: `images` and `test_images`: use the first n images (null: all; of the stand-in 10,000 and 2,000). A part of the
data set is named `cifar10-subset`.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from repro.core.errors import InputError
from repro.data import files
from repro.data.augmentation import CUTS
from repro.data.files import File, combined_checksum, limited_count
from repro.data.readers import cifar
from repro.data.readers.cifar import TRAIN, Archive, check_labels, image_split, read_records

if TYPE_CHECKING:
    from repro.data.base import Dataset

CLASSES = 10
OPTIONS = ("images", "test_images", "validation", *CUTS)
STANDIN = "cifar10-standin-seeded"
FIRST_1000 = "cifar10-first-1000-test"
# mean and deviation of each channel over the training images, for pixels from 0 to 1
MEAN, DEVIATION = (0.49139968, 0.48215841, 0.44653091), (0.24703223, 0.24348513, 0.26158784)

ARCHIVE = Archive(
    "cifar-10-binary.tar.gz",
    File(170052171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
)
MIRRORS = cifar.MIRRORS
SHA256 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
FILES = {name: File(30730000, sha256) for name, sha256 in SHA256.items()}
LABELS = "cifar10_labels.js"


def png_files() -> dict[str, File]:
    """The files of the convnetjs copy, from a table beside this module."""
    table = (Path(__file__).parent / "cifar10_png.csv").read_text(encoding="utf-8").splitlines()
    return {name: File(int(size), sha256) for name, size, sha256 in (line.split(",") for line in table)}


def find(root: str | None = None) -> Path | None:
    """The folder of the official files, else of the convnetjs copy, else None."""
    folders = ("cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", ".")
    return files.find_files("cifar10", FILES, root, folders) or files.find_files("cifar10", png_files(), root)


def read(folder: Path, images: int | None = None, test_images: int | None = None) -> Dataset:
    """The real CIFAR-10 in a folder that `find` returned; InputError for a malformed file."""
    from repro.data.base import Dataset

    official = (folder / "test_batch.bin").is_file()
    if official:
        name, checksum = "cifar10", combined_checksum(FILES)
        parts = [read_records(folder / file, 1, CLASSES) for file in FILES]
    else:
        name, checksum = FIRST_1000, combined_checksum(png_files())
        labels = read_labels(folder / LABELS)
        needed = [*range(-(-limited_count("images", images, TRAIN) // 1000)), 50]
        parts = [(read_sprite(folder / f"cifar10_batch_{k}.png"), labels[1000 * k : 1000 * (k + 1)]) for k in needed]
    x, y = ([part[i] for part in parts] for i in (0, 1))
    train = image_split(
        np.concatenate(x[:-1]), np.concatenate(y[:-1]), MEAN, DEVIATION, limited_count("images", images, TRAIN)
    )
    test = image_split(x[-1], y[-1], MEAN, DEVIATION, limited_count("test_images", test_images, len(y[-1])))
    if len(train) < TRAIN or len(test) < len(y[-1]):
        name = "cifar10-subset"
    return Dataset(name, False, checksum, train, test, classes=CLASSES, input_shape=cifar.SHAPE)


standin, shapes = partial(cifar.cifar_standin, STANDIN, CLASSES), partial(cifar.cifar_shapes, CLASSES)


def read_labels(path: Path) -> np.ndarray:
    """The 51,000 labels of `var labels=[...];`, uint8: 50,000 for training, 1,000 for the test."""
    match = re.search(r"\[[\d,\s]*\]", path.read_text(encoding="utf-8", errors="replace"))
    labels = np.array(json.loads(match[0]) if match else [])
    if labels.shape != (51000,):
        raise InputError(f"{path}: has {labels.size} labels, expected 51000")
    check_labels(path, labels, CLASSES)
    return labels.astype(np.uint8)


def read_sprite(path: Path) -> np.ndarray:
    """A PNG of 1,024 x 1,000 pixels as images (1000, 3072), channel by channel as in the binary version."""
    from repro.data.images import Unreadable, open_image

    try:
        with open_image(path) as image:
            pixels = np.asarray(image)
    except Unreadable as error:
        raise InputError(f"{path}: not a readable PNG ({error.reason})") from None
    if pixels.shape != (1000, 1024, 3):
        raise InputError(f"{path}: {pixels.shape[1]}x{pixels.shape[0]} pixels, expected 1024x1000")
    return pixels.transpose(0, 2, 1).reshape(1000, -1)
