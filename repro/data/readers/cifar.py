"""Reads the files of CIFAR-10 and CIFAR-100: records of label bytes and 3x32x32 pixels, and archives.

Images are uint8 in memory (184 MB for 60,000) and normalised when drawn, by the training set's mean and deviation of
each channel, as usual; the Pipe-SGD paper does not describe its preprocessing.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from repro.core.errors import InputError
from repro.data.files import File, limited_count

if TYPE_CHECKING:
    from repro.data.base import Dataset, Split

MIRRORS = ("https://www.cs.toronto.edu/~kriz/",)
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
TRAIN, TEST = 50_000, 10_000
STANDIN_TRAIN, STANDIN_TEST = 10_000, 2_000


@dataclass(frozen=True)
class Archive:
    """The tarball of the files, and its checksum."""

    name: str
    file: File

    def unpack(self, path: Path, wanted: Iterable[str], folder: Path) -> None:
        """Extract the wanted files, by their base names, into `folder`; InputError if the tarball lacks one."""
        missing = set(wanted)
        with tarfile.open(path) as tar:
            for member in tar:
                name = member.name.rsplit("/", 1)[-1]
                if member.isfile() and name in missing and (content := tar.extractfile(member)):
                    (folder / name).write_bytes(content.read())
                    missing.remove(name)
        if missing:
            raise InputError(f"{path}: holds no {', '.join(sorted(missing))}")


def read_records(path: Path, labels: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """(pixels (N, 3072), the last of `labels` label bytes (N,)) of a binary file, both uint8.

    InputError for an incomplete record, and for an unknown label.
    """
    raw = np.fromfile(path, np.uint8)
    if raw.size == 0 or raw.size % (labels + PIXELS):
        raise InputError(f"{path}: {raw.size} bytes are not whole records of {labels + PIXELS} bytes")
    rows = raw.reshape(-1, labels + PIXELS)
    check_labels(path, rows[:, labels - 1], classes)
    return rows[:, labels:], rows[:, labels - 1]


def check_labels(path: Path, labels: np.ndarray, classes: int) -> None:
    """InputError unless all labels are in 0 .. classes - 1."""
    if labels.size and labels.max() >= classes:
        raise InputError(f"{path}: label {labels.max()}, expected 0 to {classes - 1}")


def image_split(pixels: np.ndarray, labels: np.ndarray, mean: tuple, deviation: tuple, first: int) -> Split:
    """The `first` images of pixels (N, 3072) and labels (N,); mean, deviation: of each channel, for pixels in 0..1."""
    import torch

    from repro.data.base import Split

    x = torch.from_numpy(np.ascontiguousarray(pixels[:first])).view(-1, *SHAPE)
    scale = (torch.tensor(values, dtype=torch.float32).mul_(255).view(3, 1, 1) for values in (mean, deviation))
    return Split(x, torch.from_numpy(labels[:first].astype(np.int64)), *scale)


def cifar_standin(name: str, classes: int, images: int | None = None, test_images: int | None = None) -> Dataset:
    """A synthetic stand-in (`repro.data.synthetic_images`), by default of 10,000 and 2,000 images."""
    from repro.data import synthetic_images

    train = limited_count("images", images, TRAIN, STANDIN_TRAIN)
    return synthetic_images.synthetic_dataset(
        name, classes, SHAPE, train, limited_count("test_images", test_images, TEST, STANDIN_TEST)
    )


def cifar_shapes(
    classes: int, images: int | None = None, test_images: int | None = None
) -> tuple[tuple[int, int], int, tuple]:
    """((training images, test images), classes, shape of an image)."""
    return (limited_count("images", images, TRAIN), limited_count("test_images", test_images, TEST)), classes, SHAPE
