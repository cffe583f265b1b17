"""CIFAR100-Convex (Pipe-SGD section 4): CIFAR100-CNN in which only the last linear layer trains, a convex objective.

"The convexity is achieved by training only the last fully connected layer while fixing the parameters of all previous
layers." The paper does not say where the fixed parameters come from; its accuracy (.4793) suggests a trained network.
Ours are drawn from the seed and never trained, which costs accuracy. Only the last layer is communicated and updated:
6,500 parameters at 100 classes.

The initialisation is ours too. With CIFAR100-CNN's, one direction of the 64 features, the common mean after ReLU, is 10
to 2,000 times as strong as the next, and SGD is slow or diverges. So weights are drawn as in He et al. (2015), each
filter's mean is subtracted, which removes that direction, and fc1's weights are tripled, because mean pooling shrinks
the features.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from repro.models.cifar100_cnn import build_cifar100

FEATURE_GAIN = 3.0


def build(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in five blocks of which only fc2 trains; InputError below 8x8."""
    model = build_cifar100("cifar100_convex", input_shape, classes)
    for block in list(model)[:-1]:
        for layer in block.modules():
            if isinstance(layer, nn.Conv2d):
                draw_weights(layer.weight, "relu", 1.0)
            elif isinstance(layer, nn.Linear):
                draw_weights(layer.weight, "linear", FEATURE_GAIN)
        block.requires_grad_(False)
    return model


@torch.no_grad()
def draw_weights(weight: torch.Tensor, nonlinearity: Literal["relu", "linear"], gain: float) -> None:
    """Draw weights as He et al., times `gain`, and subtract the mean of each output's weights."""
    nn.init.kaiming_normal_(weight, nonlinearity=nonlinearity)
    weight.mul_(gain).sub_(weight.mean(dim=tuple(range(1, weight.dim())), keepdim=True))
