"""ResNet-32 for CIFAR-10 (He et al., CVPR 2016, section 4.2, n = 5) as eager-SGD counts it: 467,194 parameters.

Shortcuts are 1x1 convolutions with batch norm in the first block of all three stages, of the first stage too, where
nothing changes size (docs/errata.md, EA-8): the only form with the count of Table 1. The original has identities
throughout (464,154), option B projections in two stages (466,906).
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from repro.models._residual import head, initialise, stages

WIDTHS = (16, 32, 64)


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in seventeen blocks."""
    first = WIDTHS[0]
    stem = nn.Sequential(nn.Conv2d(input_shape[0], first, 3, padding=1, bias=False), nn.BatchNorm2d(first), nn.ReLU())
    blocks = stages(WIDTHS, blocks=5, projection=True)
    blocks["stage1_1"].shortcut = nn.Sequential(nn.Conv2d(first, first, 1, bias=False), nn.BatchNorm2d(first))
    return initialise(nn.Sequential(OrderedDict(conv1=stem, **blocks, fc=head(WIDTHS[-1], classes))))
