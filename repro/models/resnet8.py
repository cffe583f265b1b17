"""ResNet-8 for CIFAR-10 (He et al., CVPR 2016, section 4.2, with n = 1): 75,290 parameters at 10 classes.

The smallest of ResNet-20's family, for accuracies from many short runs. A `width` other than 1 scales all channels.
"""

from __future__ import annotations

from torch import nn

from repro.core.fields import Positive
from repro.models._residual import cifar_stem, head, initialise, stages
from repro.models._shapes import named_blocks, scaled_width


def build(input_shape: tuple[int, ...], classes: int, *, width: Positive = 1.0) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in five blocks."""
    widths = [scaled_width(channels, width) for channels in (16, 32, 64)]
    stem = cifar_stem(input_shape, widths[0])
    blocks = stages(widths, blocks=1, projection=False)
    return initialise(named_blocks(conv1=stem, **blocks, fc=head(widths[-1], classes)))
