"""VGG-16 for CIFAR-10: the convolutions of Simonyan, Zisserman (ICLR 2015, D), batch norm, one linear layer.

14,728,266 parameters at 10 classes: the network of the gTop-k paper's released code (github.com/hclhkbu/gtopkssgd,
`models/vgg.py`), and the 14.7 M of its text. The three fully connected layers that its Figure 11 speaks of are those of
the ImageNet original (138 M, `vgg16_imagenet`): docs/errata.md, GK-15. The last feature map, 1x1 for 32x32 images, is
averaged, so larger images work. Convolutions are drawn as He et al. (2015) do. A `width` other than 1 scales all
channels, for a network of this shape that trains quickly without a GPU. Without `batch_norm` it is as the original.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from repro.core.fields import Positive
from repro.models._residual import head, initialise
from repro.models._shapes import feature_map, named_blocks, scaled_width

STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))  # channels; a pooling ends each


def build(
    input_shape: tuple[int, ...], classes: int, *, width: Positive = 1.0, batch_norm: bool = True
) -> nn.Sequential:
    """(N, C, H, W) -> logits (N, classes), in fourteen blocks conv1_1 ... conv5_3, fc; InputError below 32x32."""
    inputs, _, _ = feature_map("vgg16", input_shape, lambda side: side // 2 ** len(STAGES))
    blocks, outputs = vgg_convolutions(STAGES, inputs, width, batch_norm)
    return initialise(named_blocks(**blocks, fc=head(outputs, classes)))


def vgg_convolutions(
    stages: Sequence[Sequence[int]], inputs: int, width: float, batch_norm: bool = False
) -> tuple[dict[str, nn.Module], int]:
    """VGG's 3x3 convolutions as blocks conv1_1, conv1_2, ..., and the channels of the last one.

    stages: the output channels of each convolution; a pooling ends each stage. All are `width` times as wide.
    """
    blocks: dict[str, nn.Module] = {}
    for stage, channels in enumerate(stages, 1):
        for layer, unscaled in enumerate(channels, 1):
            outputs = scaled_width(unscaled, width)
            block: list[nn.Module] = [nn.Conv2d(inputs, outputs, 3, padding=1)]
            block += [nn.BatchNorm2d(outputs)] * batch_norm + [nn.ReLU()] + [nn.MaxPool2d(2)] * (layer == len(channels))
            blocks[f"conv{stage}_{layer}"] = nn.Sequential(*block)
            inputs = outputs
    return blocks, inputs
