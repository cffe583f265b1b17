"""What may be done to images when a training minibatch draws them: the options that data sets of images share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from repro.core.fields import Model, NonNegative, checked

CUTS = ("flip", "pad")  # of any images
ALL = (*CUTS, "crop", "colour")  # of images in ImageNet's colours that may be held larger than a model takes them


class Augmentation(Model):
    """Of training minibatches alone; an evaluation, of training images too, sees each image's middle as it is.

    flip    left and right are exchanged in half of the draws
    pad     pixels of the channel's mean on every side, of which a window of the image's size is taken (He et al. 2016,
            section 4.2: 4)
    crop    random: a window of the size that the model takes, anywhere in the image as it is held (Krizhevsky et al.
            2012; Caffe: 227 of 256). area: a part of 8 to 100 % of its area and an aspect of 3/4 to 4/3, both uniform
            (the aspect's logarithm), resized (bilinear): Szegedy et al. 2015, section 6. Each is one draw; what sticks
            out is cut, where others draw again
    colour  standard deviation of what is added along the principal components of ImageNet's colours (Krizhevsky et al.
            2012, section 4.1: 0.1)
    """

    flip: bool | None = None
    pad: Annotated[int, Field(ge=0, le=1024)] | None = None
    crop: Literal["random", "area"] | None = None
    colour: NonNegative | None = None


def parted(given: dict[str, Any]) -> tuple[Augmentation | None, dict[str, Any]]:
    """The augmentation in the options of a data set (None: none at all), and the other options."""
    ours = {name: value for name, value in given.items() if name in ALL}
    rest = {name: value for name, value in given.items() if name not in ALL}
    augmentation = checked(Augmentation, ours, "dataset")
    return (augmentation if any(augmentation.model_dump().values()) else None), rest
