"""ImageNet22K: all of ImageNet (Deng et al. 2009, release of 2011), 14,197,122 images in 21,841 classes.

Layout, options and conditions are those of the data set `imagenet`, in a folder `imagenet22k`. No official split
exists: val/ has any images for evaluation; timing without images assumes as many as in ILSVRC-2012. `image_size` is 224
by default, VGG's. Without all classes and training images it is named `imagenet22k-subset`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.core.fields import check_fields
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
    """The first folder `imagenet22k` in the searched places; InputError if it lacks train or val."""
    return imagenet.find(root, "imagenet22k")


def read(folder: Path, **values: Any) -> Dataset:
    """The images in a folder that `find` returned; InputError as in `imagenet.read`."""
    return imagenet.of_images(
        folder, check_fields(_Options, values, "dataset"), "imagenet22k", (CLASSES, TRAIN, None), SIZE
    )


def standin(**values: Any) -> Dataset:
    """A synthetic stand-in, by default with the sizes of the stand-in of `imagenet`."""
    return imagenet.synthetic_imagenet(check_fields(_Options, values, "dataset"), STANDIN, (CLASSES, TRAIN, TEST))


def shapes(**values: Any) -> tuple[tuple[int, int], int, tuple[int, int, int]]:
    """((training images, test images), classes, shape of an image), by default of all images at 224x224."""
    whole = CLASSES, TRAIN, TEST
    return imagenet.sizes_of(check_fields(_Options, values, "dataset"), whole, whole, SIZE)
