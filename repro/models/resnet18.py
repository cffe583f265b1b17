"""ResNet-18 for ImageNet (He et al., CVPR 2016, table 1): 11,689,512 parameters at 1,000 classes.

Shortcuts are projections where sizes change (option B), as in the implementations whose count this is. Any image size:
the last feature map is averaged.
"""

from __future__ import annotations

from torch import nn

from repro.models._residual import head, imagenet_stem, initialise, stages
from repro.models._shapes import named_blocks


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in ten blocks."""
    stem = imagenet_stem(input_shape)
    blocks = stages([64, 128, 256, 512], blocks=2, projection=True)
    return initialise(named_blocks(conv1=stem, **blocks, fc=head(512, classes)))
