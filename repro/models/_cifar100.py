"""The five layers of `cifar100_cnn` and `cifar100_convex`; `cifar100_cnn` names the source of their sizes."""

from __future__ import annotations

from torch import nn

from repro.models._shapes import feature_map, named_blocks

DEVIATION = 0.1  # of the weights, truncated at two deviations


def build_cifar100(name: str, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in five blocks conv1, conv2, conv3, fc1, fc2."""
    channels, height, width = feature_map(name, input_shape, feature_side)
    model = named_blocks(
        conv1=pooled_convolution(channels, 32, nn.MaxPool2d(3, 2, ceil_mode=True)),
        conv2=pooled_convolution(32, 32, nn.AvgPool2d(3, 2, ceil_mode=True)),
        conv3=pooled_convolution(32, 64, nn.AvgPool2d(3, 2, ceil_mode=True)),
        fc1=nn.Sequential(nn.Flatten(), nn.Linear(64 * height * width, 64)),
        fc2=nn.Sequential(nn.Linear(64, classes)),
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.trunc_normal_(module.weight, std=DEVIATION, a=-2 * DEVIATION, b=2 * DEVIATION)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


def pooled_convolution(inputs: int, outputs: int, pooling: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 5, padding=2), nn.ReLU(), pooling)


def feature_side(side: int) -> int:
    """Pixels along one side after three poolings, each of which halves it, rounded down."""
    return side // 8
