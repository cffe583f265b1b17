"""Residual blocks (He, Zhang, Ren, Sun, CVPR 2016), plain and bottleneck, with either kind of shortcut."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    """relu(bn(conv(relu(bn(conv(x))))) + shortcut(x)), both convolutions 3x3; stride 2 halves the sides."""

    expansion = 1  # output channels over the width

    def __init__(self, inputs: int, outputs: int, stride: int, projection: bool):
        """projection: as in `build_shortcut`."""
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = build_shortcut(inputs, outputs, stride, projection)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1 convolution to `width` channels, 3x3, 1x1 to four times as many, each with batch norm; plus the shortcut."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int, projection: bool):
        """projection: as in `build_shortcut`. A stride of 2, in the 3x3 convolution, halves the sides."""
        super().__init__()
        outputs = self.expansion * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut = build_shortcut(inputs, outputs, stride, projection)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = functional.relu(self.bn1(self.conv1(x)))
        out = functional.relu(self.bn2(self.conv2(out)))
        return functional.relu(self.bn3(self.conv3(out)) + self.shortcut(x))


def build_shortcut(inputs: int, outputs: int, stride: int, projection: bool) -> nn.Module:
    """The identity; if sizes change, a 1x1 convolution with batch norm (`projection`, option B) or `Padded` (A)."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    if projection:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
    return Padded(outputs - inputs, stride)


class Padded(nn.Module):
    """Option A: every `stride`-th pixel, and zeros for the new channels; no parameters."""

    def __init__(self, channels: int, stride: int):
        super().__init__()
        self.channels, self.stride = channels, stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.channels))


def imagenet_stem(input_shape: Sequence[int]) -> nn.Sequential:
    """7x7 convolution and pooling, each of which halves the sides: 64 channels."""
    return nn.Sequential(
        nn.Conv2d(input_shape[0], 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    )


def stages(
    widths: Sequence[int], blocks: int | Sequence[int], projection: bool, kind: type[Residual | Bottleneck] = Residual
) -> dict[str, nn.Module]:
    """Residual blocks of each width, by name; every stage but the first begins with stride 2.

    blocks: their number for each width, or one number for all. The first stage's inputs have `widths[0]` channels.
    """
    counts = [blocks] * len(widths) if isinstance(blocks, int) else blocks
    modules: dict[str, nn.Module] = {}
    inputs = widths[0]
    for stage, (width, count) in enumerate(zip(widths, counts, strict=True), 1):
        for block in range(1, count + 1):
            stride = 2 if stage > 1 and block == 1 else 1
            modules[f"stage{stage}_{block}"] = kind(inputs, width, stride, projection)
            inputs = width * kind.expansion
    return modules


def cifar_stem(input_shape: Sequence[int], channels: int) -> nn.Sequential:
    """3x3 convolution, batch norm, ReLU."""
    convolution = nn.Conv2d(input_shape[0], channels, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU())


def head(inputs: int, classes: int) -> nn.Sequential:
    """Mean over the pixels, then one linear layer."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def initialise(network: nn.Sequential) -> nn.Sequential:
    """Draw convolutions as He et al. do (ICCV 2015, fan out); batch norm keeps PyTorch's start, the identity."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network
