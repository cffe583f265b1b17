"""ImageNet22K: all of ImageNet (Deng et al. 2009, release of 2011), 14,197,122 images in 21,841 classes.

In the layout, with the options and under the conditions of the data set `imagenet`, in a folder `imagenet22k`. No split
is published with it: val/ holds whatever is kept for evaluation, and for timing, where no image is read, there are as
many as ILSVRC-2012 has. Images are 224x224 where `image_size` is null, VGG's. Without all classes and training images
it is named `imagenet22k-subset`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.data import files
from repro.data.sets import imagenet
from repro.data.sets.imagenet import OPTIONS, _Options

if TYPE_CHECKING:
    from repro.data.base import Dataset

TRAIN, TEST, CLASSES = 14_197_122, imagenet.TEST, 21_841
SIZE = 224
STANDIN = "imagenet22k-standin-seeded"
FILES: dict[str, files.File] = {}
MIRRORS = ()
MISSING = imagenet.MISSING

__all__ = ["FILES", "MIRRORS", "MISSING", "OPTIONS", "STANDIN", "find", "read", "shapes", "standin"]


def find(root: str | None = None) -> Path | None:
    """The first place's `imagenet22k` folder; InputError where it lacks train or val."""
    return imagenet.find(root, "imagenet22k")


def read(folder: Path, **given: Any) -> Dataset:
    """The images in a folder that `find` gave; InputError as `imagenet.read`."""
    return imagenet.of_images(folder, _Options(**given), "imagenet22k", (CLASSES, TRAIN, None), SIZE)


def standin(**given: Any) -> Dataset:
    """Drawn from a seed: as many images and classes as the stand-in of `imagenet` unless the options say otherwise."""
    return imagenet.drawn(_Options(**given), STANDIN, (CLASSES, TRAIN, TEST))


def shapes(**given: Any) -> tuple[tuple[int, int], int, tuple[int, int, int]]:
    """(Training and test images), classes, shape of an image: all of it at 224x224 unless the options say less."""
    return imagenet.sizes_of(_Options(**given), (CLASSES, TRAIN, TEST), SIZE)
