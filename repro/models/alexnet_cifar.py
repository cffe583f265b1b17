"""An AlexNet-style network for 32x32 images: five convolutions and three fully connected layers with dropout.

PipeDream's section 5 names AlexNet for ImageNet (`alexnet`); its 11x11 convolution of stride 4 leaves nothing of a
CIFAR-10 image. This one has the channels of one of the two halves of Krizhevsky's network (48, 128, 192, 192, 128), the
overlapping 3x3 poolings behind conv1, conv2 and conv5, smaller kernels of stride 1, and fully connected layers of
1,024: 3,172,554 parameters at 3x32x32 and 10 classes, 2.2 M of them in the last three layers, as in AlexNet the greater
part. Local response normalisation is left out. fc6 is as wide as the last feature map (15x15 images are the least). A
`width` other than 1 scales all channels and units. Weights are drawn as He et al. (2015) do, those of fc8 from
N(0, 0.01); biases are 0.
"""

from __future__ import annotations

from torch import nn

from repro.core.fields import Positive
from repro.models._shapes import feature_map, initialise_he, named_blocks, pooled_side, scaled_width

CHANNELS, HIDDEN = (48, 128, 192, 192, 128), 1024


def build(input_shape: tuple[int, ...], classes: int, *, width: Positive = 1.0) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in eight blocks conv1 ... conv5, fc6, fc7, fc8; InputError below 15x15."""
    inputs, rows, columns = feature_map("alexnet_cifar", input_shape, feature_side)
    first, two, three, four, five = (scaled_width(channels, width) for channels in CHANNELS)
    hidden = scaled_width(HIDDEN, width)
    network = named_blocks(
        conv1=nn.Sequential(nn.Conv2d(inputs, first, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        conv2=nn.Sequential(nn.Conv2d(first, two, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        conv3=nn.Sequential(nn.Conv2d(two, three, 3, padding=1), nn.ReLU()),
        conv4=nn.Sequential(nn.Conv2d(three, four, 3, padding=1), nn.ReLU()),
        conv5=nn.Sequential(nn.Conv2d(four, five, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
        fc6=nn.Sequential(nn.Flatten(), nn.Linear(five * rows * columns, hidden), nn.ReLU(), nn.Dropout(0.5)),
        fc7=nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.5)),
        fc8=nn.Sequential(nn.Linear(hidden, classes)),
    )
    return initialise_he(network)


def feature_side(side: int) -> int:
    """Pixels along one side after the three poolings."""
    return pooled_side(pooled_side(pooled_side(side, 3, 2), 3, 2), 3, 2)
