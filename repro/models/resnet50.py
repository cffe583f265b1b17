"""ResNet-50 for ImageNet (He et al., CVPR 2016, table 1): 25,557,032 parameters at 1,000 classes.

Bottleneck blocks with the stride in the 3x3 convolution, as in torchvision, whose count this is; the paper has it in
the first 1x1 one. Shortcuts are projections where sizes change (option B). Any image size: the last feature map is
averaged. `outputs` sets the width of the last layer: TensorFlow's models reserve output 0 for "background", and with
1,001 outputs there are the 25,559,081 parameters of eager-SGD's Table 1. Here the last output is the unused one.
"""

from __future__ import annotations

from torch import nn

from repro.core.errors import InputError
from repro.models._residual import Bottleneck, head, imagenet_stem, initialise, stages
from repro.models._shapes import named_blocks


def build(input_shape: tuple[int, ...], classes: int, *, outputs: int | None = None) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, outputs), in eighteen blocks; outputs: by default the number of classes."""
    if outputs is not None and outputs < classes:
        raise InputError(f"model.outputs={outputs}: must be a whole number, {classes} (the classes) or more, or null")
    blocks = stages([64, 128, 256, 512], blocks=(3, 4, 6, 3), projection=True, kind=Bottleneck)
    last = head(512 * Bottleneck.expansion, outputs or classes)
    return initialise(named_blocks(conv1=imagenet_stem(input_shape), **blocks, fc=last))
