"""ResNet-18 for images of 32 pixels: the ImageNet network with a 3x3 stem that keeps their size; 11,173,962 parameters.

The authors train `ResNet18` on CIFAR-10 (github.com/epfml/powersgd, hyperparameters.md); its file is not in their
repository.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from repro.models._residual import head, initialise, stages


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in ten blocks."""
    stem = nn.Sequential(nn.Conv2d(input_shape[0], 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    blocks = stages([64, 128, 256, 512], blocks=2, projection=True)
    return initialise(nn.Sequential(OrderedDict(conv1=stem, **blocks, fc=head(512, classes))))
