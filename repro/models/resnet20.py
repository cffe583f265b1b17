"""ResNet-20 for CIFAR-10 (He et al., CVPR 2016, section 4.2, n = 3): 269,722 parameters at 10 classes.

Shortcuts are identities, padded with zeros where sizes change (option A), as in the paper.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from repro.models._residual import head, initialise, stages


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in eleven blocks."""
    stem = nn.Sequential(nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    blocks = stages([16, 32, 64], blocks=3, projection=False)
    return initialise(nn.Sequential(OrderedDict(conv1=stem, **blocks, fc=head(64, classes))))
