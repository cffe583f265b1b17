"""Inception-v3: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna, "Rethinking the Inception Architecture" (CVPR 2016).

The network as its authors released it (TensorFlow-Slim) and as in torchvision: 23,834,568 parameters at 1,000 classes;
TensorFlow's batch norm has no scale, and 17,216 parameters fewer. Images of 75x75 or more; the paper's are 299x299. A
block is a convolution of the stem, with its pooling, or a module: one tensor passes between them, so that a pipeline
can be cut there.

`square=True` gives the form behind PipeDream's "157 MB" (section 5.1), that of the same lab's GeePS fork:
github.com/cuihenggang/mltuner-geeps, apps/caffe/examples/imagenet/8parts/inception_v3_train_val.prototxt.template, at
commit 74d302c. It has 1 x 1 and n x n kernels instead of each factorised pair 1 x n and n x 1: 39,464,904 parameters
(157.9 MB) and 9.70 billion multiply-adds for an image of 299x299, where the usual network has 5.71. DEVIATION: our last
module pools by the mean, as the usual network does, theirs by the maximum (the same parameters and work).

DEVIATION: the auxiliary head is left out (27,161,264 parameters with it), because its loss would be a second output in
the middle of a pipeline. The prototxt has none either. iBatch's "27M" (its Table 1) includes the head.

Batch norm with TensorFlow-Slim's epsilon of 0.001, dropout of 0.2 before the last layer as there. Convolutions are
drawn as He et al. (2015) do, not from truncated normal distributions (PipeDream names no initialisation).
"""

from __future__ import annotations

import torch
from torch import nn

from repro.models._residual import initialise
from repro.models._shapes import feature_map, named_blocks, pooled_side

DROPOUT = 0.2


def build(input_shape: tuple[int, ...], classes: int, *, square: bool = False) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in seventeen blocks; InputError below 75x75.

    `square`: kernels of 1 x 1 and n x n in the place of those of 1 x n and n x 1.
    """
    channels, _, _ = feature_map("inception_v3", input_shape, feature_side)
    return initialise(
        named_blocks(
            conv1a=normed_convolution(channels, 32, 3, stride=2),
            conv2a=normed_convolution(32, 32, 3),
            conv2b=nn.Sequential(*normed_convolution(32, 64, 3, padding=1), nn.MaxPool2d(3, 2)),
            conv3b=normed_convolution(64, 80, 1),
            conv4a=nn.Sequential(*normed_convolution(80, 192, 3), nn.MaxPool2d(3, 2)),
            mixed5b=module_a(192, 32),
            mixed5c=module_a(256, 64),
            mixed5d=module_a(288, 64),
            mixed6a=reduction_a(288),
            mixed6b=module_b(768, 128, square),
            mixed6c=module_b(768, 160, square),
            mixed6d=module_b(768, 160, square),
            mixed6e=module_b(768, 192, square),
            mixed7a=reduction_b(768, square),
            mixed7b=module_c(1280, square),
            mixed7c=module_c(2048, square),
            fc=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(DROPOUT), nn.Linear(2048, classes)),
        )
    )


class Branches(nn.Module):
    """Parallel networks on one input; their outputs (N, channels, H, W) are concatenated by channels."""

    def __init__(self, *branches: nn.Module):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def normed_convolution(
    inputs: int, outputs: int, kernel: int | tuple[int, int], stride: int = 1, padding: int | tuple[int, int] = 0
) -> nn.Sequential:
    """Convolution without biases, batch norm, ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs, eps=1e-3), nn.ReLU()
    )


def wide_convolution(inputs: int, outputs: int, size: int, square: bool) -> nn.Sequential:
    """A padded convolution of 1 x size; `square`: of 1 x 1."""
    return normed_convolution(inputs, outputs, 1 if square else (1, size), padding=0 if square else (0, size // 2))


def tall_convolution(inputs: int, outputs: int, size: int, square: bool) -> nn.Sequential:
    """A padded convolution of size x 1; `square`: of size x size."""
    return normed_convolution(
        inputs, outputs, (size, size if square else 1), padding=(size // 2, size // 2 if square else 0)
    )


def mean_branch(inputs: int, outputs: int) -> nn.Sequential:
    """A 3x3 mean at every position, then a 1x1 convolution."""
    return nn.Sequential(nn.AvgPool2d(3, 1, padding=1), normed_convolution(inputs, outputs, 1))


def module_a(inputs: int, pooling: int) -> Branches:
    """Figure 5 (on 35x35): 64 + 64 + 96 + `pooling` channels."""
    return Branches(
        normed_convolution(inputs, 64, 1),
        nn.Sequential(normed_convolution(inputs, 48, 1), normed_convolution(48, 64, 5, padding=2)),
        nn.Sequential(
            normed_convolution(inputs, 64, 1),
            normed_convolution(64, 96, 3, padding=1),
            normed_convolution(96, 96, 3, padding=1),
        ),
        mean_branch(inputs, pooling),
    )


def reduction_a(inputs: int) -> Branches:
    """Figure 10 (35x35 to 17x17): 384 + 96 + inputs channels."""
    return Branches(
        normed_convolution(inputs, 384, 3, stride=2),
        nn.Sequential(
            normed_convolution(inputs, 64, 1),
            normed_convolution(64, 96, 3, padding=1),
            normed_convolution(96, 96, 3, stride=2),
        ),
        nn.MaxPool2d(3, 2),
    )


def module_b(inputs: int, width: int, square: bool) -> Branches:
    """Figure 6 with n = 7 (on 17x17): 4 x 192 channels, `width` within."""
    return Branches(
        normed_convolution(inputs, 192, 1),
        nn.Sequential(
            normed_convolution(inputs, width, 1),
            wide_convolution(width, width, 7, square),
            tall_convolution(width, 192, 7, square),
        ),
        nn.Sequential(
            normed_convolution(inputs, width, 1),
            tall_convolution(width, width, 7, square),
            wide_convolution(width, width, 7, square),
            tall_convolution(width, width, 7, square),
            wide_convolution(width, 192, 7, square),
        ),
        mean_branch(inputs, 192),
    )


def reduction_b(inputs: int, square: bool) -> Branches:
    """17x17 to 8x8: 320 + 192 + inputs channels."""
    return Branches(
        nn.Sequential(normed_convolution(inputs, 192, 1), normed_convolution(192, 320, 3, stride=2)),
        nn.Sequential(
            normed_convolution(inputs, 192, 1),
            wide_convolution(192, 192, 7, square),
            tall_convolution(192, 192, 7, square),
            normed_convolution(192, 192, 3, stride=2),
        ),
        nn.MaxPool2d(3, 2),
    )


def module_c(inputs: int, square: bool) -> Branches:
    """Figure 7 (on 8x8): 320 + 768 + 768 + 192 channels."""
    return Branches(
        normed_convolution(inputs, 320, 1),
        nn.Sequential(normed_convolution(inputs, 384, 1), fan_branches(square)),
        nn.Sequential(
            normed_convolution(inputs, 448, 1), normed_convolution(448, 384, 3, padding=1), fan_branches(square)
        ),
        mean_branch(inputs, 192),
    )


def fan_branches(square: bool) -> Branches:
    return Branches(wide_convolution(384, 384, 3, square), tall_convolution(384, 384, 3, square))


def feature_side(side: int) -> int:
    """Pixels along one side of the last feature map."""
    stem = pooled_side(pooled_side(side, 3, 2), 3, 1)
    stem = pooled_side(pooled_side(pooled_side(stem, 3, 2), 3, 1), 3, 2)
    return pooled_side(pooled_side(stem, 3, 2), 3, 2)
