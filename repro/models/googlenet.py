"""GoogLeNet, Inception-v1: Szegedy et al., "Going Deeper with Convolutions" (CVPR 2015), Table 1.

As BigDL has it for training without auxiliary heads (`Inception_v1_NoAuxClassifier`), and iBatch runs BigDL:
convolutions with biases and without batch norm, local response normalisation beside the first two poolings, poolings
that round up, dropout of 0.4 before the last layer. Twelve blocks, the layers of iBatch's Figures 3 and 4 ("adjacent
convolutional layer and pooling layer are regarded as one layer"): two of the stem, nine inception modules, the
classifier; the 1x1 convolution before conv2 is in conv2's block. Images of 31x31 or more; the paper's are 224x224.

6,998,552 parameters at 1,000 classes. A module of i channels, with branches a, (r3, b), (r5, c) and d, has
i (a + r3 + r5 + d) + 9 r3 b + 25 r5 c weights and a + r3 + b + r5 + c + d biases: 5,849,136 in the nine modules. The
stem has 9,472 + 4,160 + 110,784 = 124,416, the classifier 1,025,000. iBatch's "5M" (its Table 1) is no count of a known
form: torchvision's, with batch norm and without biases, has 6.6 M, or 13.0 M with auxiliary heads (errata.md, IB-7).
Szegedy's text has "12 times fewer" than Krizhevsky's 60 M, which is 5 M.

A `width` other than 1 scales all channels, for a network of this shape that trains quickly without a GPU.
DEVIATION: weights are drawn as for `vgg16_imagenet`, where BigDL draws as Glorot does; iBatch names no initialisation.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from repro.core.fields import Positive
from repro.models._shapes import feature_map, initialise_he, pooled_side, scaled_width
from repro.models.inception_v3 import Branches

# Table 1: #1x1, #3x3 reduce, #3x3, #5x5 reduce, #5x5, pool proj; a pooling ends 3b, 4e
MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
POOLED = ("3b", "4e")
STEM = (64, 192)
DROPOUT = 0.4


def build(input_shape: tuple[int, ...], classes: int, *, width: Positive = 1.0) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in twelve blocks conv1, conv2, inception3a ... inception5b, fc; InputError
    below 31x31."""
    inputs, _, _ = feature_map("googlenet", input_shape, feature_side)
    first, second = (scaled_width(channels, width) for channels in STEM)
    blocks: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Sequential(*padded_convolution(inputs, first, 7, 2), max_pooling(), response_norm()),
        conv2=nn.Sequential(
            *padded_convolution(first, first, 1), *padded_convolution(first, second, 3), response_norm(), max_pooling()
        ),
    )
    channels = second
    for name, branches in MODULES.items():
        module, channels = inception_module(channels, tuple(scaled_width(branch, width) for branch in branches))
        blocks[f"inception{name}"] = nn.Sequential(module, max_pooling()) if name in POOLED else module
    blocks["fc"] = nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(DROPOUT), nn.Linear(channels, classes)
    )
    return initialise_he(nn.Sequential(blocks))


def inception_module(inputs: int, branches: tuple[int, ...]) -> tuple[Branches, int]:
    """(the module of Szegedy et al.'s Figure 2 b, its output channels); `branches`: a row of MODULES."""
    single, reduce3, three, reduce5, five, projection = branches
    module = Branches(
        padded_convolution(inputs, single, 1),
        nn.Sequential(*padded_convolution(inputs, reduce3, 1), *padded_convolution(reduce3, three, 3)),
        nn.Sequential(*padded_convolution(inputs, reduce5, 1), *padded_convolution(reduce5, five, 5)),
        nn.Sequential(nn.MaxPool2d(3, 1, padding=1), *padded_convolution(inputs, projection, 1)),
    )
    return module, single + three + five + projection


def padded_convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """A padded convolution with biases, and ReLU."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2), nn.ReLU())


def max_pooling() -> nn.MaxPool2d:
    return nn.MaxPool2d(3, 2, ceil_mode=True)


def response_norm() -> nn.LocalResponseNorm:
    return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75)


def feature_side(side: int) -> int:
    """Pixels along one side of the last feature map: a convolution, and four poolings of 3 that round up."""
    side = pooled_side(side, 7, 2, padding=3)
    for _ in range(4):
        side = side // 2  # ceil((side - 3) / 2) + 1
    return side
