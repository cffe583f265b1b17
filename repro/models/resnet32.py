"""ResNet-32 for CIFAR-10 (He et al., CVPR 2016, section 4.2, n = 5) as eager-SGD counts it: 467,194 parameters.

The first block of every stage has a 1x1 convolution with batch norm as shortcut, even in the first stage, where sizes
do not change (docs/errata.md, EA-8): only this form has the count of Table 1. The original has identities throughout
(464,154), option B projections in two stages (466,906).
"""

from __future__ import annotations

from torch import nn

from repro.models._residual import cifar_stem, head, initialise, stages
from repro.models._shapes import named_blocks

WIDTHS = (16, 32, 64)


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in seventeen blocks."""
    first = WIDTHS[0]
    stem = cifar_stem(input_shape, first)
    blocks = stages(WIDTHS, blocks=5, projection=True)
    blocks["stage1_1"].shortcut = nn.Sequential(nn.Conv2d(first, first, 1, bias=False), nn.BatchNorm2d(first))
    return initialise(named_blocks(conv1=stem, **blocks, fc=head(WIDTHS[-1], classes)))
