"""The options of random augmentation and of held-out samples, shared by data sets of images."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from repro.core.errors import InputError
from repro.core.fields import Model, NonNegative, check_fields

CUTS = ("flip", "pad")  # for any images
ALL = (*CUTS, "crop", "colour")  # for images with ImageNet's colours that may be stored larger than the model's input
DEVIATION = (0.229, 0.224, 0.225)  # of ImageNet's channels, by which images are divided


class Augmentation(Model):
    """Augmentation of training minibatches. Evaluations, also of training images, use each image's centre.

    flip    mirror half of the images horizontally
    pad     pad each side by this number of pixels with the channel's mean, and cut a random window of the image's size
            (He et al. 2016, section 4.2: 4)
    crop    random: a window of the model's input size, anywhere in the stored image (Krizhevsky et al. 2012; Caffe: 227
            of 256). area: a part with 8 to 100 % of the area and an aspect ratio of 3/4 to 4/3, uniform in area and in
            the logarithm of the ratio, resized bilinearly (Szegedy et al. 2015, section 6). A part that exceeds the
            image is clipped, where other implementations draw again
    colour  standard deviation of the shift along the principal components of ImageNet's colours (Krizhevsky et al.
            2012, section 4.1: 0.1)
    """

    flip: bool | None = None
    pad: Annotated[int, Field(ge=0, le=1024)] | None = None
    crop: Literal["random", "area"] | None = None
    colour: NonNegative | None = None


def split_augmentation(options: dict[str, Any]) -> tuple[Augmentation | None, dict[str, Any]]:
    """(augmentation or None, other options) of a data set's options."""
    rest = {name: value for name, value in options.items() if name not in ALL}
    augmentation = check_fields(Augmentation, {name: options[name] for name in ALL if name in options}, "dataset")
    return (augmentation if any(augmentation.model_dump().values()) else None), rest


def validation_counts(samples: object, train: int) -> tuple[int, int]:
    """(samples to train on, samples held out) of `train` samples; InputError unless both are at least 1."""
    if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples < train:
        raise InputError(f"dataset.validation={samples}: must be a whole number from 1 to {train - 1}, or null")
    return train - samples, samples
