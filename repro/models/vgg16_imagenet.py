"""VGG16 for ImageNet: Simonyan, Zisserman, "Very Deep Convolutional Networks" (ICLR 2015), configuration D.

Thirteen 3x3 convolutions with biases and without batch norm, each followed by ReLU, and pooling after every stage; fc6
and fc7 of 4,096 with dropout, fc8: 138,357,544 parameters at 224x224 and 1,000 classes, 553 MB in float32, PipeDream's
"550 MB" (section 5.1). There is no adaptive pooling, so the size of fc6 depends on the image (at least 32x32). Every
layer is a block that includes its ReLU, pooling or dropout, so that a pipeline can be cut between any two. `vgg16` is
the network for CIFAR-10, with batch norm and one linear layer.

Weights are drawn as He et al. (2015) do, those of fc8 from N(0, 0.01), so that the loss starts near that of guessing;
biases are 0. The authors start deep networks from trained shallow ones, or (their section 3.1) as Glorot does;
PipeDream names no initialisation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from repro.models._shapes import feature_map, initialise_he, named_blocks, scaled_width
from repro.models.vgg16 import STAGES, vgg_convolutions

SIDE = 224  # image size with the published number of parameters
HIDDEN = 4096


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in sixteen blocks conv1_1 ... conv5_3, fc6, fc7, fc8; InputError below
    32x32."""
    return build_vgg("vgg16_imagenet", STAGES, input_shape, classes)


def build_vgg(
    name: str, stages: Sequence[Sequence[int]], input_shape: tuple[int, ...], classes: int, width: float = 1.0
) -> nn.Sequential:
    """The network of the given stages (output channels of convolutions) and three linear layers, all `width` times as
    wide. name: for errors."""
    inputs, height, columns = feature_map(name, input_shape, lambda side: side // 2 ** len(stages))
    blocks, outputs = vgg_convolutions(stages, inputs, width)
    hidden = scaled_width(HIDDEN, width)
    linear = OrderedDict(
        fc6=nn.Sequential(nn.Flatten(), nn.Linear(outputs * height * columns, hidden), nn.ReLU(), nn.Dropout(0.5)),
        fc7=nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.5)),
        fc8=nn.Sequential(nn.Linear(hidden, classes)),
    )
    return initialise_he(named_blocks(**blocks, **linear))
