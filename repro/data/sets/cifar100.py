"""CIFAR-100 (Krizhevsky 2009): 50,000 + 10,000 colour images of 32x32 in 100 classes.

The official binary version: train.bin and test.bin, with records of a coarse and a fine label byte and 1,024 red, green
and blue bytes. The fine labels are used.

Options: `images` and `test_images`: use the first n images (null: all; of the stand-in 10,000 and 2,000). A part of the
data set is named `cifar100-subset`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from repro.data import files
from repro.data.augmentation import CUTS
from repro.data.files import File, combined_checksum, limited_count
from repro.data.readers import cifar
from repro.data.readers.cifar import TEST, TRAIN, Archive, image_split, read_records

if TYPE_CHECKING:
    from repro.data.base import Dataset

CLASSES = 100
OPTIONS = ("images", "test_images", "validation", *CUTS)
STANDIN = "cifar100-standin-seeded"
# mean and deviation of each channel over the training images, for pixels from 0 to 1
MEAN, DEVIATION = (0.50707516, 0.48654887, 0.44091784), (0.26733429, 0.25643846, 0.27615047)

ARCHIVE = Archive(
    "cifar-100-binary.tar.gz",
    File(168513733, "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"),
)
MIRRORS = cifar.MIRRORS
FILES = {
    "train.bin": File(153700000, "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),
    "test.bin": File(30740000, "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
}


def find(root: str | None = None) -> Path | None:
    """The folder of the two files, or None. Their names are too common to search other folders."""
    return files.find_files("cifar100", FILES, root, ("cifar100", "cifar100/cifar-100-binary", "cifar-100-binary"))


def read(folder: Path, images: int | None = None, test_images: int | None = None) -> Dataset:
    """The real CIFAR-100 in a folder that `find` returned; InputError for a malformed file."""
    from repro.data.base import Dataset

    parts = []
    for file, option, value in (("train.bin", "images", images), ("test.bin", "test_images", test_images)):
        pixels, labels = read_records(folder / file, 2, CLASSES)
        parts.append(image_split(pixels, labels, MEAN, DEVIATION, limited_count(option, value, len(labels))))
    whole = (len(parts[0]), len(parts[1])) == (TRAIN, TEST)
    name = "cifar100" if whole else "cifar100-subset"
    return Dataset(name, False, combined_checksum(FILES), *parts, classes=CLASSES, input_shape=cifar.SHAPE)


standin, shapes = partial(cifar.cifar_standin, STANDIN, CLASSES), partial(cifar.cifar_shapes, CLASSES)
