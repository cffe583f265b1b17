"""Residual blocks of two 3x3 convolutions (He, Zhang, Ren, Sun, CVPR 2016), with either kind of shortcut."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    """relu(bn(conv(relu(bn(conv(x))))) + shortcut(x)); stride 2 halves the sides."""

    def __init__(self, inputs: int, outputs: int, stride: int, projection: bool):
        """`projection`: where sizes change, a 1x1 convolution with batch norm (option B), else `Padded` (option A)."""
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        if stride == 1 and inputs == outputs:
            self.shortcut = nn.Identity()
        elif projection:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        else:
            self.shortcut = Padded(outputs - inputs, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class Padded(nn.Module):
    """Option A: every `stride`-th pixel, and zeros for the new channels; no parameters."""

    def __init__(self, channels: int, stride: int):
        super().__init__()
        self.channels, self.stride = channels, stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.channels))


def stages(widths: list[int], blocks: int, projection: bool) -> dict[str, Residual]:
    """`blocks` residual blocks of each width, by name; every stage but the first begins with stride 2."""
    found, inputs = {}, widths[0]
    for stage, width in enumerate(widths, 1):
        for block in range(1, blocks + 1):
            stride = 2 if stage > 1 and block == 1 else 1
            found[f"stage{stage}_{block}"] = Residual(inputs, width, stride, projection)
            inputs = width
    return found


def head(inputs: int, classes: int) -> nn.Sequential:
    """Mean over the pixels, then one linear layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def initialise(network: nn.Module) -> nn.Module:
    """Convolutions as He et al. (ICCV 2015, fan out); batch norm starts as the identity, as PyTorch makes it."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network
