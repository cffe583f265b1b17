"""The five layers of `cifar100_cnn` and `cifar100_convex`; `cifar100_cnn` names the source of their sizes."""

from __future__ import annotations

from torch import nn

from repro.models._shapes import image, sequential

DEVIATION = 0.1  # of the weights, truncated at two deviations


def network(name: str, input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in five blocks conv1, conv2, conv3, fc1, fc2."""
    channels, height, width = image(name, input_shape, feature_side)
    model = sequential(
        conv1=convolution(channels, 32, nn.MaxPool2d(3, 2, ceil_mode=True)),
        conv2=convolution(32, 32, nn.AvgPool2d(3, 2, ceil_mode=True)),
        conv3=convolution(32, 64, nn.AvgPool2d(3, 2, ceil_mode=True)),
        fc1=nn.Sequential(nn.Flatten(), nn.Linear(64 * height * width, 64)),
        fc2=nn.Sequential(nn.Linear(64, classes)),
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.trunc_normal_(module.weight, std=DEVIATION, a=-2 * DEVIATION, b=2 * DEVIATION)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


def convolution(inputs: int, outputs: int, pooling: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 5, padding=2), nn.ReLU(), pooling)


def feature_side(side: int) -> int:
    """Pixels along one side after three poolings, each of which halves it, rounded down."""
    return side // 8
